"""Cases of `psoup.kernels.fold.frame_extremes`: frames whose ends ascend, some empty, keys with ties."""

from __future__ import annotations

from typing import Any

import numpy as np

Rng = np.random.Generator


def frames(rng: Rng) -> tuple[Any, ...]:
    """A case of the kernel."""
    rows = int(rng.integers(0, 30))
    keys = rng.integers(-3, 4, rows) * int(rng.choice([1, 2**61]))
    mask = rng.integers(0, 2, rows if rng.random() < 0.7 else 0).astype(np.uint8)
    low, high = (np.sort(rng.integers(0, rows + 1, rows)) for _ in range(2))
    return keys, mask, low, high, bool(rng.random() < 0.5), np.zeros(rows, np.int64), np.zeros(rows, np.int64)
