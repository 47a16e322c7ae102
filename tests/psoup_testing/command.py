"""The psoup command inside a test's process: what it printed, and its exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ROWS = [
    {"id": 1, "name": "a", "price": "1.50", "at": "2024-05-01T12:00:00Z"},
    {"id": 2, "name": None, "price": None, "at": "2024-05-01T13:00:00Z"},
    {"id": 3, "name": "c,d", "price": "3.25", "at": "2024-05-01T14:00:00Z"},
]
COLUMNS = "(id BIGINT NOT NULL, name TEXT, price DECIMAL(9,2), at TIMESTAMP NOT NULL) TIMESTAMP BY at"


@dataclass
class Ran:
    """What a command line did."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[Any]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


Psoup = Callable[..., Ran]
