"""Twins of the kernels in plain NumPy and Python: slow and short; the fast ones must agree with them."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]
