"""The stream or table of an INSERT or a COPY, and its columns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from psoup.errors import NotFound
from psoup.model import DELETION, Attribute, DataType
from psoup.sql.source import nearest
from psoup_proto.v1 import streams_pb2
from psoup_service.pg.statements.relations import QUERIES, STREAMS
from psoup_service.pg.statements.selects import engine_type
from psoup_service.pg.statements.words import Words
from psoup_service.pg.statements.writing.not_null import NotNull
from psoup_service.pg.values.types import type_of


@dataclass(frozen=True, slots=True)
class Named:
    """The words of a statement that name a stream and columns. `columns`: each with its place; None for all."""

    name: str
    place: int
    columns: tuple[tuple[str, int], ...] | None


@dataclass(frozen=True, slots=True)
class Target:
    """A stream with the columns that a statement writes, in its order. `not_null`: its columns that take no NULL."""

    name: str
    attributes: tuple[Attribute, ...]
    not_null: NotNull

    @property
    def oids(self) -> list[int]:
        """The types of the columns in PostgreSQL."""
        return [type_of(attribute.type)[0] for attribute in self.attributes]


def named_target(words: Words) -> Named:
    """Read the name of a stream, and a list of columns in parentheses if there is one. Raises SqlError."""
    place = words.place
    name = words.name()
    if words.accept("."):
        schema, name = name, words.name()
    else:
        schema, _, rest = name.partition(".")
        schema, name = (schema, rest) if rest else ("", name)
    if schema == QUERIES:
        hint = "the answer changes with its streams; insert into one of them"
        raise words.source.unsupported("inserting into a view of queries", place, hint=hint)
    if schema not in ("", STREAMS):
        raise words.source.error(
            f'schema "{schema}" does not exist', place, hint="the streams are in streams", reason="UNKNOWN_STREAM"
        )
    columns = list[tuple[str, int]]()
    if not words.accept("("):
        return Named(name, place, None)
    while True:
        columns.append((words.name(), words.place))
        if not words.accept(","):
            break
    words.expect(")")
    return Named(name, place, tuple(columns))


async def target_of(call: Callable[[str, Any], Awaitable[Any]], words: Words, named: Named) -> Target:
    """The stream with the columns that are named. Raises SqlError for an unknown one."""
    try:
        reply = await call("StreamService/GetStream", streams_pb2.GetStreamRequest(name=named.name))
    except NotFound as problem:
        raise words.source.error(problem.message, named.place, reason="UNKNOWN_STREAM") from None
    stream: streams_pb2.Stream = reply.stream
    declared = [Attribute(column.name, engine_type(column.type)) for column in stream.columns]
    if named.columns is None:
        return Target(stream.name, tuple(declared), NotNull.of(stream))
    by_name = {each.name.lower(): each for each in declared}
    if stream.primary_key:
        by_name[DELETION.name] = Attribute(DELETION.name, DataType(DELETION.type.kind))
    chosen = _chosen(words, stream.name, by_name, named.columns)
    return Target(stream.name, tuple(chosen), NotNull.of(stream))


def _chosen(
    words: Words, stream: str, by_name: dict[str, Attribute], columns: Sequence[tuple[str, int]]
) -> list[Attribute]:
    chosen = list[Attribute]()
    for column, place in columns:
        attribute = by_name.get(column.lower())
        if attribute is None:
            raise words.source.error(
                f'column "{column[:64]}" of relation "{stream}" does not exist',
                place,
                hint=nearest(column, by_name) or f"its columns are {', '.join(list(by_name)[:12])}",
                reason="UNKNOWN_COLUMN",
            )
        if attribute in chosen:
            raise words.source.error(f'column "{column}" specified more than once', place, reason="DUPLICATE_COLUMN")
        chosen.append(attribute)
    return chosen
