"""Keys in use: a new query with the key of another is a repeated call, a replacement, or a conflict.

    key ──> the query that has it ── the same text, values and labels ──> the earlier answer
                                  ├─ replace ──> the new query takes its place, in one event
                                  └─ else ────> Conflict: the differences, and the way out

A block with keys is accepted as a whole or not at all. The error gets the differences from the writer's published
state. If the earlier call is not published yet, or several queries differ, the error says only that the calls differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from psoup.admission.queries.query_streams import Owners
from psoup.admission.queries.tags import KnownTags, TaggedCall
from psoup.errors import Conflict, InvalidInput
from psoup.events.tags import TagColumns
from psoup.phrases import counted
from psoup.plan.standing_query import StandingQuery
from psoup.published.records import QueryRecord
from psoup.values.columns import Array

_SHOWN = 120
"""The most characters of a text that a conflict shows."""


class KeyHolders(NamedTuple):
    """The queries that have the keys of a call. `sequence`: the event of an earlier call that was the same, or 0."""

    replaced: Array
    """The query that each new query replaces, or -1: int64[n]."""
    sequence: int = 0
    first: int = 0
    """The ID of the first query of the same earlier call."""


class RegistrationCall(NamedTuple):
    """The call to decide on. `tags`: its keys and labels. `replace`: whether it may replace the queries with its keys.

    `same`: whether a digest belongs to this call. `query`: returns the query of a row, or None if the call will be
    refused. `expires`: the lifetime of the queries in days.
    """

    tenant: str
    tags: TagColumns
    same: Callable[[bytes], bool]
    query: Callable[[int], StandingQuery | None]
    replace: bool
    expires: int


def check_replace(replace: bool, keyed: bool) -> None:
    """Raise InvalidInput for a call that would replace queries, but has no keys."""
    if replace and not keyed:
        raise InvalidInput("replace is for queries with a key; give the key of the query to replace", reason="KEY")


def held(new_call: RegistrationCall, tags_in_use: KnownTags, owners: Owners) -> KeyHolders | None:
    """Find the queries that have some of the call's keys. None if all keys are free. Raises Conflict."""
    queries, tags = tags_in_use.queries_of(new_call.tenant, new_call.tags, owners), new_call.tags
    taken = np.flatnonzero(queries >= 0)
    if not len(taken):
        return None
    row = int(taken[0])
    first, call = tags_in_use.call_of(int(queries[row]))
    whole = call.queries == len(queries) and bool((queries == np.arange(first, first + call.queries)).all())
    if whole and new_call.same(call.digest):
        return KeyHolders(queries, call.sequence, first)
    record = tags_in_use.record(int(queries[row]))
    if record is not None and len(queries) == 1 and not _differences(record, new_call, 0):
        return KeyHolders(queries, record.sequence, record.query_id)
    if new_call.replace:
        return KeyHolders(queries)
    differences = [] if record is None else _differences(record, new_call, row)
    raise _taken(tags.tag(row).key, int(queries[row]), call, differences)


def _differences(record: QueryRecord, call: RegistrationCall, row: int) -> list[str]:
    """Texts about the parts in which a registered query differs from the new one: its text, labels and lifetime."""
    differences, query, tag = [], call.query(row), call.tags.tag(row)
    if query is None or record.query.text != query.text:
        text = " ".join(record.query.text.split())
        differences.append(f"its text is {text if len(text) <= _SHOWN else text[:_SHOWN] + '…'}")
    if record.tag.labels != tag.labels:
        labels = ", ".join(f"{name}={value}" for name, value in record.tag.labels)
        differences.append(f"its labels are {labels}" if labels else "it has no labels")
    if record.expires != call.expires:
        days = counted(record.expires, "day")
        differences.append(f"it expires after {days}" if record.expires else "it does not expire")
    return differences


def _taken(key: str, query_id: int, call: TaggedCall, differences: list[str]) -> Conflict:
    holder = "another query" if call.queries == 1 else f"a query of a block of {call.queries:,}"
    why = f": {'; '.join(differences)}" if differences else ""
    return Conflict(
        f"key {key!r} is that of {holder}, registered otherwise{why}. To put the new query in its place, say replace"
        " (--replace, replace=True); or take another key, or unregister that query first",
        reason="KEY_TAKEN",
        key=key,
        query_id=query_id,
    )
