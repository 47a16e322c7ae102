"""Registration: the decision to register queries, and its event.

    command ──repeated?──> the earlier answer
       └──bind (`bind_steps`), now or on the binder's thread──> does it fit, are its streams unchanged? ──> event

The functions change no state on which decisions depend.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from psoup.admission.budget import MemoryBudget
from psoup.admission.catalog import KnownTenant
from psoup.admission.queries.alteration import check_keeping
from psoup.admission.queries.bind_steps import Binding
from psoup.admission.queries.holders import RegistrationCall, check_replace, held
from psoup.admission.queries.registry_state import RegistryState
from psoup.admission.queries.requests import is_call
from psoup.admission.queries.tags import check_tag
from psoup.config import EngineConfig
from psoup.errors import FailedPrecondition, InvalidInput
from psoup.events.acknowledgements import Prepared, QueriesAcknowledgement, QueryAcknowledgement
from psoup.events.commands import Register, RegisterMany
from psoup.events.events import Registered, RegisteredMany
from psoup.events.tags import NO_TAG, TagColumns
from psoup.joins.pairs_store import join_with_pairs
from psoup.plan.standing_query import StandingQuery
from psoup.sql.lifetime import lifetime_days
from psoup.sql.templates.block import BoundBlock
from psoup.values.columns import Array

_SHOWN = 120
"""The most characters of a statement that an error shows."""


class EventPlace(NamedTuple):
    """The next event's sequence, the ID of its first query, and the clock time."""

    sequence: int
    query_id: int
    now: int


def decide_registration(
    command: Register | RegisterMany,
    binding: Binding | None,
    tenant: KnownTenant,
    standing: RegistryState,
    place: EventPlace,
    config: EngineConfig,
) -> Prepared:
    """Decide on one query, or a block. `binding`: the binding of the command, if another thread has made it.

    Raises the errors of binding, Conflict and ResourceExhausted.
    """
    check_keeping(command.keeping, standing.parks)
    if isinstance(command, RegisterMany):
        check_block(command, config)
    binding = binding or Binding(tenant, command, config, standing.budget)
    if isinstance(command, Register):
        return _decide_register(binding, command, tenant, standing, place)
    return _decide_register_many(binding, command, tenant, standing, place)


def _decide_register(
    binding: Binding, command: Register, tenant: KnownTenant, standing: RegistryState, place: EventPlace
) -> Prepared:
    """Decide on one query. Raises the errors of binding, Conflict and ResourceExhausted."""
    tag, keyed, expires = command.tag, bool(command.tag.key), lifetime_days(command.expires_after)
    same = partial(is_call, command.sql, tag, expires)
    check_replace(command.replace, keyed)
    if tag is not NO_TAG:
        check_tag(tag)
        standing.tags.check_names(command.tenant, (name for name, _ in tag.labels))
    replaced = 0
    if keyed and standing.tags.query_of(command.tenant, tag.key, standing.owners) >= 0:  # usually the key is free
        tags = TagColumns.of(tag)
        assert tags is not None
        call = RegistrationCall(command.tenant, tags, same, binding.query, command.replace, expires)
        if (holders := held(call, standing.tags, standing.owners)) is not None:
            if holders.sequence:
                return Prepared(QueryAcknowledgement(holders.sequence, True, holders.first))
            replaced = int(holders.replaced[0])
    if not keyed and (earlier := tenant.requests.earlier(command.request_id, same, standing.owners)) is not None:
        return Prepared(QueryAcknowledgement(earlier.sequence, True, earlier.first_id))
    _finish(binding, tenant, standing.budget)
    if command.keep_pairs:
        check_pairs(binding.queries)
    query = binding.queries[0]
    streams = [tenant.stream(selection.source.spec.name).stream_id for selection in query.selections]
    request = "" if keyed else command.request_id
    event = Registered(
        place.sequence,
        command.tenant,
        streams[0],
        place.query_id,
        query,
        request,
        place.now,
        tag,
        replaced,
        expires,
        tuple(streams) if query.sides else (),
        command.keep_pairs,
        0 if query.sides else tenant.stream(query.selections[0].source.spec.name).next_id(standing.tags.published),
        command.keeping,
    )
    return Prepared(QueryAcknowledgement(event.sequence, query_id=event.query_id), event)


def _decide_register_many(
    binding: Binding, command: RegisterMany, tenant: KnownTenant, standing: RegistryState, place: EventPlace
) -> Prepared:
    """Decide on a block, which is accepted as a whole or not at all. Raises the same errors as `_decide_register`."""
    tags, keyed, expires = binding.tags(), command.keyed, lifetime_days(command.expires_after)
    check_replace(command.replace, keyed)
    replaced: Array | None = None
    if tags is not None and keyed:
        call = RegistrationCall(command.tenant, tags, binding.is_digest, binding.query, command.replace, expires)
        if (holders := held(call, standing.tags, standing.owners)) is not None:
            if holders.sequence:
                return Prepared(QueriesAcknowledgement(holders.sequence, True, holders.first, len(tags)))
            replaced = holders.replaced
    elif (earlier := tenant.requests.earlier(command.request_id, binding.is_digest, standing.owners)) is not None:
        return Prepared(QueriesAcknowledgement(earlier.sequence, True, earlier.first_id, earlier.count))
    _finish(binding, tenant, standing.budget)
    if tags is not None:
        standing.tags.check_names(command.tenant, tags.names)
    queries = binding.queries
    if command.keep_pairs:
        check_pairs(queries)
    streams, side_streams = _streams_of(queries, tenant)
    event = RegisteredMany(
        place.sequence,
        command.tenant,
        place.query_id,
        streams,
        queries,
        "" if keyed else command.request_id,
        binding.digest() if command.request_id or keyed else b"",
        place.now,
        "" if command.rows is None else command.statements[0],
        binding.rows,
        (),
        tags,
        replaced,
        expires,
        side_streams,
        command.keep_pairs,
        _next_ids(queries, tenant, standing),
        command.keeping,
    )
    return Prepared(QueriesAcknowledgement(event.sequence, False, event.first_id, len(queries)), event)


def check_pairs(queries: Sequence[StandingQuery]) -> None:
    """Raise InvalidInput for a query that cannot have kept pairs. The call asks for them, for all `queries`."""
    for row in range(1 if isinstance(queries, BoundBlock) else len(queries)):
        if join_with_pairs(queries[row].plan) is None:
            raise InvalidInput(
                "keep_pairs is for joins of two streams whose conditions compare a column of one, or a sum of it and a"
                f" constant, with one of the other; {' '.join(queries[row].text.split())[:_SHOWN]!r} is another query",
                reason="KEEP_PAIRS",
                field="keep_pairs",
            )


def _streams_of(queries: Sequence[StandingQuery], tenant: KnownTenant) -> tuple[list[int], list[tuple[int, ...]]]:
    """The stream of each query, and the streams of its sides. The queries of a template have one entry for all.

    The list of sides is empty if no query is a join.
    """
    if isinstance(queries, BoundBlock):
        streams = [tenant.stream(source.spec.name).stream_id for source in queries.template.sources]
        return streams[:1], [tuple(streams)] if len(streams) > 1 else []
    streams = [tenant.stream(query.selections[0].source.spec.name).stream_id for query in queries]
    if not any(query.sides for query in queries):
        return streams, []
    return streams, [tuple([tenant.stream(side.stream).stream_id for side in query.sides]) for query in queries]


def _next_ids(
    queries: Sequence[StandingQuery], tenant: KnownTenant, standing: RegistryState
) -> tuple[tuple[int, int], ...]:
    """The ID of the next tuple of each stream that queries over one stream read."""
    if isinstance(queries, BoundBlock):
        names = {source.spec.name for source in queries.template.sources}
    else:
        names = {query.selections[0].source.spec.name for query in queries}
    streams = [tenant.stream(name) for name in sorted(names)]
    return tuple((stream.stream_id, stream.next_id(standing.tags.published)) for stream in streams)


def _finish(binding: Binding, tenant: KnownTenant, budget: MemoryBudget) -> None:
    """Finish the binding. Raises its error, or FailedPrecondition if a stream has changed, or ResourceExhausted."""
    binding.advance()
    binding.check()
    if not binding.stands(tenant):
        raise FailedPrecondition(
            "a stream of this registration was changed while it was prepared; send it again", reason="STREAM_CHANGED"
        )
    budget.check_queries(binding.charge, len(binding.queries))


def check_block(command: RegisterMany, config: EngineConfig) -> None:
    """Raise InvalidInput for a block that is empty or too large, or has rows of values and several statements."""
    if command.rows is not None and len(command.statements) != 1:
        raise InvalidInput(
            f"rows of parameters belong to one statement, not to {len(command.statements)}", reason="BLOCK"
        )
    check_count(command.count, config)
    size = sum(map(len, command.statements)) + (command.rows.nbytes if isinstance(command.rows, pa.Table) else 0)
    if size > config.block_bytes:
        raise InvalidInput(
            f"the block has {size:,} bytes of statements and values; {config.block_bytes:,} is the most, send it in"
            " parts",
            reason="BLOCK_TOO_LARGE",
            found=size,
            limit=config.block_bytes,
        )


def check_count(queries: int, config: EngineConfig) -> None:
    """Raise InvalidInput for a block with no queries, or too many. The service checks this before it decodes values."""
    if not queries:
        raise InvalidInput("the block holds no queries; give at least one", reason="BLOCK")
    if queries > config.block_queries:
        raise InvalidInput(
            f"the block holds {queries:,} queries; {config.block_queries:,} is the most, send it in parts",
            reason="BLOCK_TOO_LARGE",
            found=queries,
            limit=config.block_queries,
        )
