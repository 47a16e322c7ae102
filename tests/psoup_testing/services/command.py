"""The psoup command inside a test's process: what it printed, and its exit code.

A process of its own builds the tree of commands once; here it would be built for each command line of the tests,
which takes longer than most of them do. It has no state, so `build_once` keeps it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import typer.main
import typer.testing

ROWS = [
    {"id": 1, "name": "a", "price": "1.50", "at": "2024-05-01T12:00:00Z"},
    {"id": 2, "name": None, "price": None, "at": "2024-05-01T13:00:00Z"},
    {"id": 3, "name": "c,d", "price": "3.25", "at": "2024-05-01T14:00:00Z"},
]
COLUMNS = "(id BIGINT NOT NULL, name TEXT, price DECIMAL(9,2), at TIMESTAMP NOT NULL) TIMESTAMP BY at"


@dataclass
class Ran:
    """The outcome of a command line."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[Any]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


Psoup = Callable[..., Ran]


def build_once() -> None:
    """From now on this process builds the commands of each `Typer` at its first use only."""
    cached = cache(typer.main.get_command)
    typer.main.get_command = typer.testing._get_command = cached
