"""Definitions of streams and tables in rows of the log: a statement, and facts that the statement does not have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from psoup.derivation import Derivation, DerivedSource, Gap, Halt, StreamOperator
from psoup.events.events import StreamAltered, StreamCreated
from psoup.model import NO_EDGE, StreamSpec
from psoup.sql import alter_stream, columns_statement, create_stream, with_derivation


def definition_facts(event: StreamCreated | StreamAltered) -> dict[str, Any]:
    """The facts of an event's definition that its statement does not have."""
    facts: dict[str, Any] = {} if event.spec.ahead_stated else {"ahead": event.spec.ahead}
    table, derived = event.spec.table, event.spec.derived
    if derived is not None:
        whole = _derivation_facts(derived) if isinstance(event, StreamCreated) else {}
        facts["derived"] = whole | _pump_facts(derived)
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
        return with_derivation(spec, _derivation(derived))
    return spec if ahead is None else replace(spec, ahead=ahead, ahead_stated=False)


def altered(spec: StreamSpec, sql: str, facts: Mapping[str, Any]) -> StreamSpec:
    """The stream after the ALTER statement of an event, which has these facts."""
    change, edges = alter_stream(sql), facts.get("edges")
    if spec.derived is not None:
        return replace(spec, derived=replace(spec.derived, **_pump_state(facts["derived"])))
    spec = (replace(change, ahead=facts.get("ahead")) if change.default_ahead else change).of(spec)
    if edges is None or spec.table is None:
        return spec
    return replace(spec, table=replace(spec.table, exact_from=edges[0], forgotten_before=edges[1]))


def _derivation_facts(derived: Derivation) -> dict[str, Any]:
    """The facts of a derivation. Options that the statement does not have are left out."""
    sources = [[each.name, each.stream_id, each.columns, each.width] for each in derived.sources]
    limits = {"every": derived.every, "lag_limit": derived.lag_limit, "state_limit": derived.state_limit}
    return {
        "select": derived.select,
        "sources": sources,
        "event_time": derived.event_time,
        "from_now": derived.from_now,
        "operator": derived.operator.value,
        **{name: limit for name, limit in limits.items() if limit is not None},
    }


def _derivation(facts: Mapping[str, Any]) -> Derivation:
    """The inverse of `_derivation_facts`."""
    sources = tuple([DerivedSource(*each) for each in facts["sources"]])
    operator = StreamOperator(facts.get("operator", "ISTREAM"))
    return Derivation(**{**facts, "sources": sources, "operator": operator, **_pump_state(facts)})


def _pump_facts(derived: Derivation) -> dict[str, Any]:
    """The state of a pump: whether it runs, and the instants that it has left out. Empty for most."""
    facts: dict[str, Any] = {} if derived.halt is None else {"halt": list(derived.halt)}
    return facts | ({"gaps": list(map(list, derived.gaps))} if derived.gaps else {})


def _pump_state(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a derivation that `_pump_facts` has written."""
    halt = facts.get("halt")
    gaps = tuple([Gap(*each) for each in facts.get("gaps", ())])
    return {"halt": None if halt is None else Halt(*halt), "gaps": gaps}
