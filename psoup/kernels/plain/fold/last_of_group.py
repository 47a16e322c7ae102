"""Twins of `psoup.kernels.fold.last_of_group`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.plain import Array


def keep_last(numbers: Array, left: Array, flags: Array) -> None:
    """Mark the last rows of each group."""
    newest_first = np.argsort(numbers[::-1], kind="stable")
    groups = numbers[::-1][newest_first]
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    ranks = np.arange(len(groups)) - np.repeat(starts, np.diff(starts, append=len(groups)))
    taken = ranks < left[groups]
    flags[len(numbers) - 1 - newest_first] = taken
    np.subtract.at(left, groups[taken], 1)
