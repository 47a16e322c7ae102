"""Events in words, with names, IDs and texts: so a person can make up for events that a copy lacks.

    4711  12 rows were pushed to trades (stream 3), producer feed, epoch 1, batch 7
    4712  query 9 was registered, key alerts: SELECT price FROM trades

Secrets, digests and positions are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import assert_never

from psoup.events.access import TokenIssued, TokenRevoked
from psoup.events.events import (
    Attached,
    Event,
    Pushed,
    QueriesAltered,
    QueryEvent,
    Registered,
    RegisteredMany,
    Replaced,
    StreamAltered,
    StreamCreated,
    StreamDropped,
    Unregistered,
    UnregisteredMany,
    WatermarkRaised,
    WatermarksRaised,
)
from psoup.events.groups import GroupChanged
from psoup.events.lists import ListEvent
from psoup.events.tags import NO_TAG, Tag
from psoup.events.tenants import TenantAltered, TenantCreated, TenantDropped
from psoup.events.webhooks import WebhookChanged
from psoup.model import DEFAULT_TENANT, StreamSpec, time_text
from psoup.phrases import counted, verb
from psoup.values.columns import Array

Specs = Mapping[int, StreamSpec]
"""The definitions of streams by their IDs."""


def lines_of(event: Event, specs: Specs) -> Iterator[str]:
    """The lines about an event: one, and one for each query of several that are registered."""
    tenant = getattr(event, "tenant", DEFAULT_TENANT)
    place = f" (tenant {tenant})" if isinstance(tenant, str) and tenant != DEFAULT_TENANT else ""
    yield f"{event.sequence}  {_words(event, specs)}{place}"
    if isinstance(event, RegisteredMany):
        for position, query in enumerate(event.queries):
            if position not in event.gone:
                tag = NO_TAG if event.tags is None else event.tags.tag(position)
                yield f"    query {event.first_id + position}{_tag(tag)}: {_one_line(query.text)}"


def _words(event: Event, specs: Specs) -> str:
    match event:
        case Pushed():
            rows, was = counted(event.accepted, "row"), verb(event.accepted, "was", "were")
            return f"{rows} {was} pushed to {_stream(event.stream_id, specs)}{_batch(event)}"
        case StreamCreated():
            return f"{_stream(event.stream_id, specs)} was created: {_one_line(event.sql)}"
        case StreamAltered():
            return f"{_stream(event.stream_id, specs)} was altered: {_one_line(event.added)}"
        case StreamDropped():
            return f"{_stream(event.stream_id, specs)} was dropped"
        case Attached():
            where = _stream(event.stream_id, specs)
            return f"the history of the job {event.job} was attached to {where}: {counted(event.extent.rows, 'row')}"
        case WatermarkRaised():
            where = _stream(event.stream_id, specs)
            return f"a heartbeat moved the watermark of {where} to {time_text(event.watermark)}"
        case WatermarksRaised():
            return f"the clock moved the watermarks of {counted(len(event.stream_ids), 'stream')}"
        case Registered() | RegisteredMany() | Replaced() | Unregistered() | UnregisteredMany() | QueriesAltered():
            return _about_queries(event)
        case _:
            return _about_lists(event, specs)


def _about_queries(event: QueryEvent) -> str:
    match event:
        case Registered():
            instead = f", in place of query {event.replaced}" if event.replaced else ""
            return f"query {event.query_id} was registered{_tag(event.tag)}{instead}: {_one_line(event.query.text)}"
        case RegisteredMany():
            last = event.first_id + len(event.queries) - 1
            form = f" by the template {_one_line(event.template)}" if event.template else ""
            return f"the queries {event.first_id} to {last} were registered{form}:"
        case Replaced():
            return f"the queries {_ids(event.earlier)} were replaced by {_ids(event.later)}"
        case Unregistered():
            return f"query {event.query_id} was unregistered"
        case UnregisteredMany():
            queries, was = counted(event.count, "query"), verb(event.count, "was", "were")
            ids = f": {_ids(event.query_ids)}" if len(event.query_ids) else ""
            return f"{queries} {was} unregistered{ids}"
        case QueriesAltered():
            return f"it was changed how the queries {_ids(event.query_ids)} are kept"
        case _:
            assert_never(event)


def _about_lists(event: ListEvent, specs: Specs) -> str:
    match event:
        case TokenIssued():
            token = event.token
            roles = ", ".join(token.roles)
            return f"the access token {token.token_id} of {token.name} was issued, tenant {token.tenant}: {roles}"
        case TokenRevoked():
            return f"the access token {event.token_id} was revoked"
        case TenantCreated():
            return f"the tenant {event.tenant.name} was created"
        case TenantAltered():
            return f"the quotas of the tenant {event.tenant.name} were changed"
        case TenantDropped():
            return f"the tenant {event.name} was dropped"
        case GroupChanged():
            done = "removed" if event.group is None else "formed, or confirmed positions"
            return f"the group {event.name} of followers of {_stream(event.stream_id, specs)} was {done}"
        case WebhookChanged():
            if event.webhook is None:
                return f"webhook {event.webhook_id} was removed"
            return f"webhook {event.webhook_id}, key {event.webhook.key}, was added or changed: {event.webhook.url}"
        case _:
            assert_never(event)


def _stream(stream: int, specs: Specs) -> str:
    spec = specs.get(stream)
    return f"stream {stream}" if spec is None else f"{spec.name} ({spec.noun} {stream})"


def _batch(event: Pushed) -> str:
    if not event.producer:
        return ""
    return f", producer {event.producer}, epoch {event.epoch}, batch {event.number}"


def _tag(tag: Tag) -> str:
    labels = "".join(f", {name} = {value}" for name, value in tag.labels)
    return f"{f', key {tag.key}' if tag.key else ''}{labels}"


def _ids(ids: Array) -> str:
    return ", ".join(map(str, ids.tolist()))


def _one_line(text: str) -> str:
    return " ".join(text.split())
