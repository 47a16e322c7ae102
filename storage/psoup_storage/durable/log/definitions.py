"""Definitions of streams and tables in rows of the log: a statement, and facts that the statement does not have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from psoup.derivation import Derivation, DerivedSource
from psoup.events.events import StreamAltered, StreamCreated
from psoup.model import NO_EDGE, StreamSpec
from psoup.sql import alter_stream, columns_statement, create_stream, with_derivation


def definition_facts(event: StreamCreated | StreamAltered) -> dict[str, Any]:
    """The facts of an event's definition that its statement does not have."""
    facts: dict[str, Any] = {} if event.spec.ahead_stated else {"ahead": event.spec.ahead}
    table, derived = event.spec.table, event.spec.derived
    if derived is not None:
        sources = [[each.name, each.stream_id, each.columns, each.width] for each in derived.sources]
        facts["derived"] = {"select": derived.select, "sources": sources, "event_time": derived.event_time}
        facts["derived"] |= {"from_now": derived.from_now}
    if table is not None and (table.exact_from, table.forgotten_before) != (NO_EDGE, NO_EDGE):
        facts["edges"] = [table.exact_from, table.forgotten_before]
    return facts


def definition_text(event: StreamCreated) -> str:
    """The statement of an event in its row: of a derived stream its columns, so that it can be read alone."""
    return event.sql if event.spec.derived is None else columns_statement(event.spec)


def created(facts: Mapping[str, Any]) -> StreamSpec:
    """The stream of a row's facts. `ahead`: the default AHEAD, if the statement has none and the row has a default.

    Earlier versions wrote the default into the statement.
    """
    spec, ahead, derived = create_stream(facts["sql"]), facts.get("ahead"), facts.get("derived")
    if derived is not None:
        sources = tuple([DerivedSource(*each) for each in derived["sources"]])
        return with_derivation(spec, Derivation(**{**derived, "sources": sources}))
    return spec if ahead is None else replace(spec, ahead=ahead, ahead_stated=False)


def altered(spec: StreamSpec, sql: str, facts: Mapping[str, Any]) -> StreamSpec:
    """The stream after the ALTER statement of an event, which has these facts."""
    change, edges = alter_stream(sql), facts.get("edges")
    spec = (replace(change, ahead=facts.get("ahead")) if change.default_ahead else change).of(spec)
    if edges is None or spec.table is None:
        return spec
    return replace(spec, table=replace(spec.table, exact_from=edges[0], forgotten_before=edges[1]))
