"""A picture of a Results Structure: a line for each tuple, a column for each query, then names and counts of queries.

tuple    1 2
70       # .
71       . #
1 cheap: 1   2 q-7f3a91c2-9: 1
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from rich.cells import cell_len

from psoup_cli.output import WIDE, show
from psoup_client import Results

_MOST = 1_000
"""The greatest number of tuples, and of queries, that are drawn if a program reads the output."""

_SHOWN = 40
"""The greatest number of characters of a key."""

_GAP = "   "
"""The blanks between two names."""

_ID_WIDTH = 8
"""The width of a tuple ID in characters."""


class PictureSize(NamedTuple):
    """The numbers of tuples, queries and lines of names that fit, and the characters in a line."""

    tuples: int
    queries: int
    names: int
    width: int


def room_here(as_json: bool) -> PictureSize:
    """Measure the size of the terminal. If a program reads the output, the size is larger."""
    if as_json or not sys.stdout.isatty():
        return PictureSize(_MOST, _MOST, _MOST, WIDE)
    width, height = shutil.get_terminal_size()
    names = max(height // 3, 1)
    return PictureSize(max(height - names - 4, 1), max((width - _ID_WIDTH) // 2, 1), names, width)


def picture(bits: Results, first: int, room: PictureSize) -> tuple[list[str], int]:
    """Draw the tuples from `first` on. Returns the lines, and the number of queries whose names fit."""
    columns = [bits[query_id][first - bits.first_id :] for query_id in bits]
    lines = [" ".join(["tuple".ljust(_ID_WIDTH), *(str((at + 1) % 10) for at in range(len(columns)))])]
    lines += (
        " ".join([str(first + at).ljust(_ID_WIDTH), *("#" if bit else "." for bit in row)])
        for at, row in enumerate(zip(*columns, strict=True))
    )
    names = (key or query_id for key, query_id in zip(bits.query_keys, bits.query_ids, strict=True))
    texts = [
        f"{at + 1} {show(name)[:_SHOWN]}: {column.count()}"
        for at, (name, column) in enumerate(zip(names, columns, strict=True))
    ]
    named = list(islice(_side_by_side(texts, room.width), room.names))
    return lines + [_GAP.join(line) for line in named], sum(map(len, named))


def _side_by_side(texts: Sequence[str], width: int) -> Iterator[list[str]]:
    """Join texts into lines of at most `width` characters."""
    line, used = list[str](), 0
    for text in texts:
        needed = len(_GAP) + cell_len(text)
        if line and used + needed > width + len(_GAP):
            yield line
            line, used = [], 0
        line.append(text)
        used += needed
    if line:
        yield line
