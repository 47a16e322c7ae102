"""Rows of registrations as events: `query` for one query, `queries` for a block.

row ── parked at the end of the log? ──> an event without statements
    └─ else ───────────────────────────> statements, bound to the streams of that time
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from psoup.admission.budget import block_row_charge, usual_charge
from psoup.events.events import Registered, RegisteredMany
from psoup.events.tags import TagColumns, tag_of
from psoup.plan.amounts import Keeping, parked_as
from psoup.plan.nodes import Values
from psoup.plan.standing_query import StandingQuery
from psoup.published.parked_queries import ParkedQueries
from psoup.sql.templates.block import BoundBlock
from psoup.sql.templates.ladder import Rows
from psoup.values.columns import Array
from psoup_storage.durable.log.blocks import columns_in, decode_block, read_gone
from psoup_storage.durable.log.keepings import keeping_in
from psoup_storage.durable.log.parked_at_end import ParkedAtEnd
from psoup_storage.durable.log.rows import INT64, LogRow, checked_tuples
from psoup_storage.durable.log.stream_names import LoggedStreams, StreamIds


def parking_facts(event: Registered | RegisteredMany) -> dict[str, Any]:
    """The facts of a registration that a replay needs if the queries are parked then: the bytes that admission charges
    for each, and the streams of a join's sides."""
    sides = event.side_streams[:1] if isinstance(event, RegisteredMany) else event.side_streams
    if isinstance(event, Registered):
        facts: dict[str, Any] = {"charge": usual_charge(event)}
    elif isinstance(event.queries, BoundBlock):
        facts = {"charge": block_row_charge(event)}
    else:
        return {}
    return facts | ({"sides": list(sides)} if sides else {})


class _Content(NamedTuple):
    """The fields of `RegisteredMany` that depend on whether its queries are bound."""

    streams: Sequence[int]
    queries: Sequence[StandingQuery]
    tags: TagColumns | None
    keeping: Keeping
    rows: Rows = ()
    of_sides: Sequence[StreamIds] = ()
    parked: Sequence[int] = ()
    charge: int = 0


class RegistrationDecoder:
    """Decodes the registrations of a log. `parked`: which queries are parked at its end; None to bind all of them."""

    def __init__(self, streams: LoggedStreams, parked: ParkedAtEnd | None) -> None:
        self._streams = streams
        self._parked = parked

    def query(self, row: LogRow, facts: dict[str, Any]) -> Registered:
        """The event of a row of the kind `query`."""
        streams, keeping, charge = tuple(facts.get("streams", ())) or (row.stream,), keeping_in(facts), 0
        parked = self._parked is not None and bool(self._parked.of(facts["query"], 1, keeping)[0])
        of_sides: StreamIds
        if parked and "charge" in facts and not facts.get("pairs"):
            query, of_sides, charge = _unread(facts["text"]), tuple(facts.get("sides", ())), facts["charge"]
            first = of_sides[0] if of_sides else row.stream
        else:
            query = self._streams.bind(streams, facts["text"])
            of_sources = self._streams.of_sources(streams, query.sources)
            first, of_sides = of_sources[0], of_sources if query.sides else ()
        if self._parked is not None:
            keeping = parked_as(keeping) if parked else replace(keeping, parked=False)
        names = facts["tenant"], first, facts["query"]
        tag = tag_of(facts.get("key", ""), facts.get("labels"))
        more = facts.get("replaced", 0), facts.get("expires", 0), of_sides
        pairs: bool = facts.get("pairs", False)
        last = pairs, facts.get("next", 0), keeping
        event = Registered(row.sequence, *names, query, facts["request"], facts["time"], tag, *more, *last)
        return replace(event, charge=charge) if charge else event

    def queries(self, row: LogRow, facts: dict[str, Any]) -> RegisteredMany:
        """The event of a row of the kind `queries`."""
        if self._parked is not None and self._parked.all_of(row, facts):
            content = _all_parked(row, facts)
        else:
            content = self._bound(row, facts)
        return RegisteredMany(
            row.sequence,
            facts["tenant"],
            facts["first"],
            content.streams,
            content.queries,
            facts["request"],
            bytes.fromhex(facts["digest"]),
            facts["time"],
            facts["template"],
            content.rows,
            [] if row.gone is None else read_gone(row.sequence, facts["count"], row.gone).tolist(),
            content.tags,
            None if row.refused is None else np.frombuffer(row.refused, INT64),
            facts.get("expires", 0),
            content.of_sides,
            facts.get("pairs", False),
            tuple((stream, next_id) for stream, next_id in facts.get("next", ())),
            content.keeping,
            content.parked,
            content.charge,
        )

    def _bound(self, row: LogRow, facts: dict[str, Any]) -> _Content:
        """Queries that are bound, some of them perhaps only to be parked."""
        streams, of_sides, parked = facts["streams"], list[StreamIds](), list[int]()
        content, keeping = checked_tuples(row, facts), keeping_in(facts)
        queries, rows, tags = decode_block(facts, content, self._streams.bind, self._streams.prepared)
        if "joins" in facts:
            streams, of_sides = self._streams.of_joins(tuple(streams), queries)
        if self._parked is not None:
            parked = np.flatnonzero(self._parked.of(facts["first"], facts["count"], keeping)).tolist()
            keeping = replace(keeping, parked=False)
        return _Content(streams, queries, tags, keeping, rows, of_sides, parked)


def _all_parked(row: LogRow, facts: dict[str, Any]) -> _Content:
    """Queries of a template's block that are all parked, or gone."""
    of_sides = [tuple(sides) for sides in facts.get("sides", ())]
    streams, width = ([of_sides[0][0]], len(of_sides[0])) if of_sides else (facts["streams"], 0)
    ids, keeping = range(facts["first"], facts["first"] + facts["count"]), parked_as(keeping_in(facts))
    queries = ParkedQueries(None, row.sequence, ids, width)
    return _Content(streams, queries, _tags(row, facts), keeping, of_sides=of_sides, charge=facts["charge"])


def _tags(row: LogRow, facts: Mapping[str, Any]) -> TagColumns | None:
    """The tags of a block, copied out of its content."""
    if "labels" not in facts:
        return None
    _, tags = columns_in(facts, checked_tuples(row, dict(facts)))
    everything: Array = np.arange(facts["count"])
    return None if tags is None else tags.take(everything)


def _unread(text: str) -> StandingQuery:
    """A query that has only its text. A replay needs the text for the digest of the call."""
    return StandingQuery(text, (), Values((), ()))
