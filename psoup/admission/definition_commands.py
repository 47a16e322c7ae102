"""Commands that define streams: CREATE, ALTER and DROP, each by its decision."""

from __future__ import annotations

from typing import NamedTuple, assert_never

from psoup.admission.budget import MemoryBudget
from psoup.admission.catalog import KnownStream, KnownTenant
from psoup.admission.definitions import decide_drop, prepare_alter, prepare_create
from psoup.admission.derivations import Streams
from psoup.admission.queries.query_streams import Owners
from psoup.config import EngineConfig
from psoup.events.acknowledgements import Prepared
from psoup.events.commands import AlterStream, CreateStream, DropStream
from psoup.values.columns import Array


class Standing(NamedTuple):
    """The state on which definitions depend. `archive`: whether the service stores closed chunks."""

    streams: Streams
    queries: Owners
    budget: MemoryBudget
    config: EngineConfig
    archive: bool


def decide_definition(
    tenant: KnownTenant,
    command: CreateStream | AlterStream | DropStream,
    standing: Standing,
    place: tuple[int, int, int],
) -> Prepared:
    """Decide on a definition. `place`: the ID of the next stream, the sequence of the last event, and the time.

    Raises the errors of `psoup.admission.definitions`.
    """
    next_stream, sequence, now = place
    config, budget = standing.config, standing.budget
    match command:
        case CreateStream():
            where = (next_stream, sequence + 1, now), config, budget, standing.streams
            return prepare_create(tenant, command, *where, archive=standing.archive)
        case AlterStream():
            return prepare_alter(tenant, command, sequence, now, config, budget, standing.streams)
        case DropStream():
            stream = tenant.stream(command.name)
            return decide_drop(tenant, stream, command, lambda each: _users(each, standing.queries), sequence + 1)
        case _:
            assert_never(command)


def _users(stream: KnownStream, queries: Owners) -> Array:
    return queries.of_stream(stream.stream_id)
