"""Twins of `psoup.kernels.texts`."""

from __future__ import annotations

from itertools import pairwise

from psoup.kernels.plain import Array


def _texts(ends: Array, data: Array) -> list[bytes]:
    return [data[first:stop].tobytes() for first, stop in pairwise(ends.tolist())]


def reverse_texts(ends: Array, data: Array, out: Array) -> None:
    """See the kernel."""
    base = int(ends[0])
    for (first, stop), text in zip(pairwise(ends.tolist()), _texts(ends, data), strict=True):
        out[first - base : stop - base] = list(text.decode()[::-1].encode())


def first_letters(ends: Array, data: Array, nothing: int, out: Array) -> None:
    """See the kernel."""
    out[:] = [ord(text.decode()[0]) if text else nothing for text in _texts(ends, data)]


def find_pieces(
    ends: Array, data: Array, between: Array, parts: Array, numbers: Array, begin: Array, stop: Array
) -> None:
    """See the kernel."""
    for i, (text, part) in enumerate(zip(_texts(ends, data), _texts(between, parts), strict=True)):
        begin[i] = stop[i] = ends[i]
        pieces = text.split(part) if part else []
        at = int(numbers[i]) - 1 if numbers[i] > 0 else int(numbers[i]) + len(pieces)
        if numbers[i] and 0 <= at < len(pieces):
            begin[i] += sum(len(piece) + len(part) for piece in pieces[:at])
            stop[i] = begin[i] + len(pieces[at])
