"""The peers of PSoup, each in its best known formulation.

    by_hand.py      a batch against some thousand queries of the paper: masks in NumPy, and the limit in C
    arrive.py       the same by engines: expressions, a join with the table of the queries
    join.py         a batch against a million queries of one form: a join with the table of the queries
    scan.py         one query from scratch over a table that holds the window and nothing else
    pathway.py      a streaming engine, in an environment of its own
    postgres.py     a PostgreSQL server on loopback, for as long as it is measured

Engines use all cores, what is written by hand one. A missing peer gives a row that says so, with the way to get it. A
slow peer gets a sample of the work, which its name shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

P = TypeVar("P")


class Missing(Exception):
    """A peer that this machine does not have: its name, and what to do about it. Raised by its constructor."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(name, why)
        self.name, self.why = name, why


def made(makers: Iterable[Callable[[], P]]) -> tuple[list[P], list[Missing]]:
    """The peers that can be made here, and those that cannot."""
    here: list[P] = []
    missing: list[Missing] = []
    for make in makers:
        try:
            here.append(make())
        except Missing as absent:
            missing.append(absent)
    return here, missing
