"""An entry of a store: a query that is kept, and what is known of its copy."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass

from psoup_client.errors import InvalidRequest

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}", re.ASCII)
_TAKEN = re.compile(r"(store|queries|history|rows_[0-9]+|sqlite_.*)", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Entry:
    """A query of a store. It is given by one of `sql`, `query_id` and `key`.

    `priority`: the greatest first; `fresh`: seconds for which a copy is fresh enough, and is not asked for again.
    `rows`: of the copy; `complete`: it is the answer as of `now`, else a part; `synced`: when it was asked for last, by
    the clock here; `error`: what went wrong then.
    """

    name: str
    sql: str = ""
    query_id: str = ""
    key: str = ""
    priority: float = 0.0
    fresh: float = 0.0
    rows: int = 0
    complete: bool = False
    now: dt.datetime | None = None
    synced: dt.datetime | None = None
    error: str = ""

    def check(self) -> None:
        """Raise InvalidRequest unless it may be put into a store."""
        if not _NAME.fullmatch(self.name) or _TAKEN.fullmatch(self.name):
            raise InvalidRequest(
                f"{self.name[:80]!r} is no name for a copy: a letter, then letters, digits or _, 63 at most, and not"
                " store, queries, history, rows_… or sqlite_…, which the file has itself"
            )
        if bool(self.sql) + bool(self.query_id) + bool(self.key) != 1:
            raise InvalidRequest(f"{self.name}: give a statement, the ID of a query, or a key: one of them")
        if not self.fresh >= 0:
            raise InvalidRequest(f"{self.name}: fresh is {self.fresh}; it is a number of seconds, 0 or more")
        if not abs(self.priority) < 1e9:
            raise InvalidRequest(f"{self.name}: priority is {self.priority}; it is a number below a thousand million")
