"""An entry of a store: a query, and the state of its copy."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Literal

from psoup_client.errors import InvalidRequest

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}", re.ASCII)
_TAKEN = re.compile(
    r"(store|queries|history|recharges|clock|clock_now|rows_[0-9]+|sqlite_.*)", re.ASCII | re.IGNORECASE
)
ORDERS = ("newest", "oldest")
_WINDOW = 1_000
"""The greatest length of a window's text, in characters."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A query of a store, named by exactly one of `sql`, `query_id` and `key`.

    `priority`: the greatest comes first, after overdue copies. `fresh`: seconds for which a copy is fresh enough not to
    be asked for again. `share`: the part of a recharge's bytes that is reserved for it, up to 1. `order`: the rows that
    come first if not all fit, `newest` or `oldest`. `window`: a window in place of the query's own.

    `rows`: rows of the copy. `complete`: the copy is the whole answer as of `now`. `ages`: the local clock can tell
    which rows leave later. `synced`: local time of the last request. `error`: the error of that request.
    """

    name: str
    sql: str = ""
    query_id: str = ""
    key: str = ""
    priority: float = 0.0
    fresh: float = 0.0
    share: float = 0.0
    order: str = "newest"
    window: str = ""
    rows: int = 0
    complete: bool = False
    ages: bool = False
    now: dt.datetime | None = None
    synced: dt.datetime | None = None
    error: str = ""

    @property
    def certainty(self) -> Literal["exact now", "as of", "partial"]:
        """The certainty of the copy.

        `exact now`: the service's answer at this moment, if no tuple came since the last sync. `as of`: the whole
        answer at `now`. `partial`: not the whole answer.
        """
        if not self.complete:
            return "partial"
        return "exact now" if self.ages else "as of"

    @property
    def age(self) -> float | None:
        """The seconds since the last request for this copy, by the local wall clock; None before the first request."""
        if self.synced is None:
            return None
        return max((dt.datetime.now(dt.UTC) - self.synced).total_seconds(), 0.0)

    def is_fresh(self) -> bool:
        """Whether the copy is complete and its last request is less than `fresh` seconds old."""
        if self.synced is None or not self.complete or self.error or not self.fresh:
            return False
        since = (dt.datetime.now(dt.UTC) - self.synced).total_seconds()
        return 0 <= since < self.fresh  # below 0: the wall clock was set back, so the age is unknown

    def check(self) -> None:
        """Raise InvalidRequest if a value of the entry is invalid."""
        for field in ("name", "sql", "query_id", "key", "order", "window"):
            if not isinstance(value := getattr(self, field), str):
                raise InvalidRequest(f"{field} is {str(value)[:80]}; it must be a text")
        for field in ("priority", "fresh", "share"):
            if not isinstance(value := getattr(self, field), int | float) or isinstance(value, bool):
                raise InvalidRequest(f"{self.name[:80]}: {field} is {str(value)[:80]}; it must be a number")
        if not _NAME.fullmatch(self.name) or _TAKEN.fullmatch(self.name):
            raise InvalidRequest(
                f"{self.name[:80]!r} is not a valid name of a copy: use a letter, then letters, digits or _, at most"
                " 63, and not store, queries, history, recharges, clock, clock_now, rows_… or sqlite_…, which the file"
                " has itself"
            )
        if bool(self.sql) + bool(self.query_id) + bool(self.key) != 1:
            raise InvalidRequest(f"{self.name}: give a statement, the ID of a query, or a key: one of them")
        if not 0 <= self.fresh < 1e12:
            raise InvalidRequest(f"{self.name}: fresh is {self.fresh}; it is a number of seconds, 0 or more")
        if not abs(self.priority) < 1e9:
            raise InvalidRequest(f"{self.name}: priority is {self.priority}; it is a number below a thousand million")
        if not 0 <= self.share <= 1:
            raise InvalidRequest(
                f"{self.name}: share is {self.share}; it is a part of the budget, from 0 to 1: 0.25, say"
            )
        if self.order not in ORDERS:
            raise InvalidRequest(f"{self.name}: order is {self.order[:80]!r}; it is newest or oldest")
        if len(self.window) > _WINDOW:
            raise InvalidRequest(f"{self.name}: window has {len(self.window):,} characters; it may have {_WINDOW:,}")
