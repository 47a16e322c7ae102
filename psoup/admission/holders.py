"""Keys that are taken: the call that comes again, the query that gives way to a new one, or a conflict that says why.

    key ──> the query that has it ── the same text, values and labels ──> the answer of before
                                  ├─ replace ──> the new query takes its place, in one event
                                  └─ else ────> Conflict: what differs, and the way out

A block with keys is taken whole. What differs is read from what the writer has published; before it has, or if the
calls differ in more than one query, the conflict says only that the call was another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from psoup.admission.query_streams import Owners
from psoup.admission.tags import Call, KnownTags
from psoup.columns import Array
from psoup.errors import Conflict, InvalidInput
from psoup.events.tags import TagColumns
from psoup.plan.standing import StandingQuery
from psoup.published.records import QueryRecord
from psoup.wording import counted

_SHOWN = 120
"""Characters of a text that a conflict shows."""


class Held(NamedTuple):
    """The queries that have the keys of a call. With a `sequence`, an earlier call was the same: its queries stand."""

    replaced: Array
    """The query with each key, that the new one replaces, or -1; int64[n]."""
    sequence: int = 0
    first: int = 0
    """The first query of the earlier call."""


class Asked(NamedTuple):
    """The call that is decided on. `query`: binds the query of a row; None if that is refused."""

    tenant: str
    tags: TagColumns
    same: Callable[[bytes], bool]
    query: Callable[[int], StandingQuery | None]
    replace: bool
    expires: int


def check_replace(replace: bool, keyed: bool) -> None:
    """Raise InvalidInput for a call without keys that would replace queries."""
    if replace and not keyed:
        raise InvalidInput("replace is for queries with a key; give the key of the query to replace", reason="KEY")


def held(asked: Asked, known: KnownTags, owners: Owners) -> Held | None:
    """The queries that have some of the keys; None if all are free. Raises Conflict."""
    queries, tags = known.queries_of(asked.tenant, asked.tags, owners), asked.tags
    taken = np.flatnonzero(queries >= 0)
    if not len(taken):
        return None
    row = int(taken[0])
    first, call = known.call_of(int(queries[row]))
    whole = call.queries == len(queries) and bool((queries == np.arange(first, first + call.queries)).all())
    if whole and asked.same(call.digest):
        return Held(queries, call.sequence, first)
    record = known.record(int(queries[row]))
    if record is not None and len(queries) == 1 and not _differences(record, asked, 0):
        return Held(queries, record.sequence, record.query_id)
    if asked.replace:
        return Held(queries)
    differences = [] if record is None else _differences(record, asked, row)
    raise _taken(tags.tag(row).key, int(queries[row]), call, differences)


def _differences(record: QueryRecord, asked: Asked, row: int) -> list[str]:
    """The parts in which a query that stands is not the one that is asked for, in words."""
    differences, query, tag = [], asked.query(row), asked.tags.tag(row)
    if query is None or record.query.text != query.text:
        text = " ".join(record.query.text.split())
        differences.append(f"its text is {text if len(text) <= _SHOWN else text[:_SHOWN] + '…'}")
    if record.tag.labels != tag.labels:
        labels = ", ".join(f"{name}={value}" for name, value in record.tag.labels)
        differences.append(f"its labels are {labels}" if labels else "it has no labels")
    if record.expires != asked.expires:
        days = counted(record.expires, "day")
        differences.append(f"it expires after {days}" if record.expires else "it does not expire")
    return differences


def _taken(key: str, query_id: int, call: Call, differences: list[str]) -> Conflict:
    of = "another query" if call.queries == 1 else f"a query of a block of {call.queries:,}"
    why = f": {'; '.join(differences)}" if differences else ""
    return Conflict(
        f"key {key!r} is that of {of}, registered otherwise{why}. To put the new query in its place, say replace"
        " (--replace, replace=True); or take another key, or unregister that query first",
        reason="KEY_TAKEN",
        key=key,
        query_id=query_id,
    )
