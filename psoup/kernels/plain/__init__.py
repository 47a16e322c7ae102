"""The kernels again, in plain NumPy and Python: slow, short, and what the fast ones must agree with."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]
