"""The queries of a call for many answers, divided into sets and failures. One pass answers a set.

    place   0   1   2   3   4   5           the order of the call; an ID may come twice
    ID      7   8   9  12  40   8
            └─ set 0 ──┘   │   gone         a set has the queries of one plan over one stream
                           └─ set 1

A block has queries that one call registered as columns, and stays columns here. Each query outside of blocks takes a
step of Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from psoup.errors import InvalidInput, NotFound, PSoupError
from psoup.plan.amounts import inactive_codes
from psoup.plan.nodes import Node, Output
from psoup.plan.sides import FIRST_SIDE
from psoup.published.departures import NOT_KNOWN, WhyGone
from psoup.published.record_block import picked
from psoup.published.records import NO_CLAUSE, QueryBlock, QueryRecord
from psoup.published.snapshot import Snapshot
from psoup.results.runs import order_of
from psoup.values.columns import Array

_SHOWN_COLUMNS = 16
"""The most columns that the message of an error names."""


@dataclass(frozen=True, slots=True)
class Alike:
    """A set: queries of one plan over the same streams. `places`: their places in the call, int64[k], ascending.

    `sqc_ids`: their clauses, int64[k]. `record`: any of the queries.
    """

    record: QueryRecord
    plan: Node
    places: Array
    sqc_ids: Array


class Failed(NamedTuple):
    """Queries without an answer, and the reason. `places`: their places in the call, int64[k], ascending."""

    error: PSoupError
    places: Array


@dataclass(frozen=True, slots=True)
class QuerySet:
    """The queries of a call, divided into `sets` and failures. `ids`: the query IDs of the call, in order, int64[n]."""

    ids: Array
    sets: Sequence[Alike]
    failed: Sequence[Failed]

    @property
    def select(self) -> tuple[Output, ...]:
        """The columns of the first query in the call that is registered. () if there is none."""
        return min(self.sets, key=lambda alike: int(alike.places[0])).plan.schema if self.sets else ()

    def refuse_mixed(self, named: Callable[[int], str] = str) -> None:
        """Raise InvalidInput, reason MIXED_COLUMNS, if the answers of two queries have different columns."""
        in_order = sorted(self.sets, key=lambda alike: int(alike.places[0]))
        columns = [_columns(alike.plan.schema) for alike in in_order]
        for alike, names_and_types in zip(in_order, columns, strict=True):
            if names_and_types != columns[0]:
                first, other = (named(int(self.ids[queries.places[0]])) for queries in (in_order[0], alike))
                raise InvalidInput(
                    f"the answers of queries {first} and {other} have different columns, {_text(columns[0])} and"
                    f" {_text(names_and_types)}; ask for queries with the same columns in one call",
                    reason="MIXED_COLUMNS",
                    first=first,
                    second=other,
                )


def asked_for(snapshot: Snapshot, ids: Array, tenant: str) -> QuerySet:
    """Find the queries `ids`, int64[n], in any order. IDs below 0 are left out.

    O(n log n), and a step of Python for each query outside of blocks. Notes the use of queries that expire.
    """
    distinct, back = distinct_ids(ids)
    wanted = distinct[(distinct >= 0) & (distinct < FIRST_SIDE)]
    shift = int(np.searchsorted(distinct, 0))
    records = snapshot.queries.find(wanted)
    members: dict[tuple[int, ...], list[tuple[QueryRecord, Node, Array, Array]]] = {}

    def add(record: QueryRecord, plan: Node, keys: Array, sqc_ids: Array) -> None:
        condition = bool(len(sqc_ids)) and record.sqc_id != NO_CLAUSE and bool(record.query.factors)
        members.setdefault((id(plan), record.stream_id, condition), []).append((record, plan, keys, sqc_ids))

    for block, at in records.blocks:
        if isinstance(block, QueryBlock) and block.tenant == tenant:
            keys = picked(block.ids, at)
            add(block.make(int(at[0])), plan_of(block), keys, picked(block.sqc_ids, at))
            if block.expires:
                snapshot.lifetimes.note_all(keys)
            inactive = inactive_codes(block.codes_at(at))
            if inactive.any():
                snapshot.lifetimes.asked.note_all(keys[inactive])
    _add_single(snapshot, records.records, tenant, add)
    every = [part for parts in members.values() for part in parts]
    if len(every) == 1 and back is None and len(every[0][2]) == len(ids):
        record, plan, keys, clauses = every[0]  # the call names a whole block, whose queries are in order
        return QuerySet(ids, [Alike(record, plan, np.arange(len(keys)), clauses)], [])
    set_of_id: Array = np.full(len(distinct), -1, np.int64)
    sqc_ids: Array = np.zeros(len(distinct), np.int64)
    for number, parts in enumerate(members.values()):
        for _, _, keys, clauses in parts:
            at = shift + (np.arange(len(keys)) if len(keys) == len(wanted) else np.searchsorted(wanted, keys))
            set_of_id[at], sqc_ids[at] = number, clauses
    by_place = set_of_id if back is None else set_of_id[back]
    clause_of = sqc_ids if back is None else sqc_ids[back]
    order = order_of(by_place)
    ends = np.cumsum(np.bincount(by_place + 1, minlength=len(members) + 1))
    sets = []
    for number, parts in enumerate(members.values()):
        places = order[ends[number] : ends[number + 1]]
        sets.append(Alike(*parts[0][:2], places, clause_of[places]))
    missing = order[: ends[0]]
    gone = missing[ids[missing] >= 0]
    return QuerySet(ids, sets, _gone(snapshot.gone.get(tenant, NOT_KNOWN), ids, gone))


def distinct_ids(ids: Array) -> tuple[Array, Array | None]:
    """The distinct IDs, ascending, and the place of each ID among them. None if `ids` is distinct and ascending."""
    if bool((ids[1:] > ids[:-1]).all()):
        return ids, None
    distinct, back = np.unique(ids, return_inverse=True)
    return distinct, back


def plan_of(block: QueryBlock) -> Node:
    """The plan that all queries of a block share."""
    queries: Any = block.queries
    return queries.template.plan if hasattr(queries, "template") else queries[0].plan


def _add_single(snapshot: Snapshot, records: dict[int, QueryRecord], tenant: str, add: Any) -> None:
    """Add the queries outside of blocks, grouped by plan and stream."""
    plans: dict[tuple[int, ...], tuple[QueryRecord, Node, list[int], list[int]]] = {}
    for query_id, record in records.items():
        if record.tenant != tenant:
            continue
        query = record.query
        plan = query.plan
        key = id(plan), record.stream_id, any(selection.factors for selection in query.selections)
        if key not in plans:
            plans[key] = record, plan, [], []
        plans[key][2].append(query_id)
        plans[key][3].append(record.sqc_id)
        if record.expires:
            snapshot.lifetimes.note(query_id)
        if not record.keeping.active:
            snapshot.lifetimes.asked.note(query_id)
    for record, plan, keys, sqc_ids in plans.values():
        add(record, plan, np.array(keys, np.int64), np.array(sqc_ids, np.int64))


def _gone(why: WhyGone, ids: Array, places: Array) -> list[Failed]:
    """The failures of the queries that are not registered, one for each reason: replaced, expired or unknown."""
    keys = ids[places]
    replaced = np.isin(keys, why.successors.earlier)
    expired = ~replaced & np.isin(keys, why.expired.earlier)
    reasons = (
        (replaced, "QUERY_REPLACED", "these queries were replaced; go on with those that have their keys now"),
        (
            expired,
            "QUERY_EXPIRED",
            "these queries were not asked for as long as their expires_after says; register them again",
        ),
        (
            ~(replaced | expired),
            "UNKNOWN_QUERY",
            "there are no such queries: they were unregistered, or never"
            " registered; list the queries to see what stands",
        ),
    )
    return [Failed(NotFound(text, reason=reason), places[which]) for which, reason, text in reasons if which.any()]


def _columns(select: Sequence[Output]) -> tuple[tuple[str, str], ...]:
    return tuple((output.name, str(output.type)) for output in select)


def _text(columns: Sequence[tuple[str, str]]) -> str:
    shown = ", ".join(f"{name} {kind}" for name, kind in columns[:_SHOWN_COLUMNS])
    return f"({shown}{', …' if len(columns) > _SHOWN_COLUMNS else ''})"
