"""Definitions of streams and tables in rows of the log: a statement, and facts that the statement does not have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from psoup.events.events import StreamAltered, StreamCreated
from psoup.model import NO_EDGE, StreamSpec
from psoup.sql import alter_stream, create_stream


def definition_facts(event: StreamCreated | StreamAltered) -> dict[str, Any]:
    """The facts of an event's definition that its statement does not have."""
    facts: dict[str, Any] = {} if event.spec.ahead_stated else {"ahead": event.spec.ahead}
    table = event.spec.table
    if table is not None and (table.exact_from, table.forgotten_before) != (NO_EDGE, NO_EDGE):
        facts["edges"] = [table.exact_from, table.forgotten_before]
    return facts


def created(sql: str, ahead: int | None) -> StreamSpec:
    """The stream of a statement. `ahead`: the default AHEAD, if the statement has none and the row has a default.

    Earlier versions wrote the default into the statement.
    """
    spec = create_stream(sql)
    return spec if ahead is None else replace(spec, ahead=ahead, ahead_stated=False)


def altered(spec: StreamSpec, sql: str, facts: Mapping[str, Any]) -> StreamSpec:
    """The stream after the ALTER statement of an event, which has these facts."""
    change, edges = alter_stream(sql), facts.get("edges")
    spec = (replace(change, ahead=facts.get("ahead")) if change.default_ahead else change).of(spec)
    if edges is None or spec.table is None:
        return spec
    return replace(spec, table=replace(spec.table, exact_from=edges[0], forgotten_before=edges[1]))
