"""Twins of `psoup.kernels.select`."""

from __future__ import annotations

from psoup.kernels.plain import Array


def range_mask(keys: Array, low: int, last: int, mask: Array) -> None:
    """See the kernel."""
    mask[:] = (keys >= low) & (keys <= last)


def allowed_mask(codes: Array, allowed: Array, mask: Array) -> None:
    """See the kernel."""
    mask[:] = allowed[codes]
