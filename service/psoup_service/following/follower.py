"""A following client: what it wants, and its place in the stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count

from psoup.answer.follow.kept_entries import FollowPlace
from psoup.answer.follow.page import (
    Follower,
)
from psoup.answer.follow.told import FollowWanted
from psoup.errors import PSoupError


@dataclass(frozen=True, slots=True)
class FollowForm:
    """The terms of a client: its tenant, its name, and the limits of a batch. `progress_s`: the most seconds between
    two batches.
    """

    tenant: str
    name: str
    most_rows: int
    most_bytes: int
    progress_s: float


@dataclass(slots=True, eq=False)
class FollowClient:
    """A following client. It belongs to the event loop, except for `follower`, which one reader uses at a time.

    `end`: ends its call with an error. `place`: as far as the client has been told, unless it is at the newest tuple:
    then the marks of its stream know the place.
    """

    stream_id: int
    form: FollowForm
    wanted: FollowWanted
    place: FollowPlace
    end: Callable[[PSoupError], None]
    follower: Follower = field(init=False)
    newest: bool = False
    """Whether the client has been told all tuples up to the last look of its marks."""
    late: bool = False
    """Whether it named a query with amount NONE as of its last page. Its pages wait in a line of their own."""
    stale: bool = True
    """Whether the next page resolves the wanted queries anew, because a new query may be one of them."""
    clauses: frozenset[int] | None = None
    """The clauses whose new matches mark the client. None: every new tuple marks it."""
    watched: Mapping[int, object] | None = None
    """The last clauses that the marks of its stream were given."""
    marked: asyncio.Event = field(default_factory=asyncio.Event)
    number: int = field(init=False, default_factory=count().__next__)
    """A number that no other client of this process has."""

    def __post_init__(self) -> None:
        self.follower = Follower(self.wanted)
