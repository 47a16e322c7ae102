"""Messages of the contract as JSON for an assistant: columns, times, queries, and the completeness of an answer."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pydantic import BaseModel

from psoup.phrases import counted
from psoup_proto.v1 import queries_pb2, types_pb2
from psoup_service.wire.amounts import amount_name
from psoup_service.wire.completeness import derived_phrases
from psoup_service.wire.json_messages import plain_fields, timestamp_text


class Facts(BaseModel):
    """A result, or a part of one. Fields that are not set are left out of its JSON."""

    def size(self) -> int:
        """The bytes of its JSON. O(values)."""
        return len(self.model_dump_json(exclude_unset=True).encode())


class ColumnFacts(Facts):
    """A column: its name, and its type as CREATE STREAM has it."""

    name: str
    type: str


class CompletenessFacts(Facts):
    """The completeness of an answer: `said` in words, and fields of the contract's Completeness by their names.

    `final`: no row can come or leave any more. `sequence`: the last event that the answer reflects. `late`, `ahead`,
    `pending`: tuples of the stream that came too late, are too far ahead of the clock, or wait for the watermark.
    `late_in_window` and so on: their number in the window. Fields that are false, 0 or not known are
    left out, except for a known 0 in the window.
    """

    said: str
    final: bool
    sequence: int
    now: str | None = None
    begin: str | None = None
    end: str | None = None
    late: int | None = None
    late_in_window: int | None = None
    ahead: int | None = None
    ahead_in_window: int | None = None
    pending: int | None = None
    pending_in_window: int | None = None
    truncated: bool | None = None
    errors: int | None = None
    select_errors: int | None = None
    unknown: int | None = None
    halt: str | None = None


class QueryFacts(Facts):
    """A registered query, or the query that a statement would make.

    `amount`: how much the service keeps of its answer. `active`: false if new tuples are not told to it.
    """

    key: str | None = None
    query_id: str | None = None
    statement: str
    streams: list[str]
    window: str
    columns: list[ColumnFacts] | None = None
    labels: dict[str, str] | None = None
    expires: str | None = None
    amount: str | None = None
    active: bool | None = None


def columns_of(columns: Iterable[types_pb2.Column]) -> list[ColumnFacts]:
    """Columns of the contract."""
    return [ColumnFacts(name=column.name, type=_type_text(column.type)) for column in columns]


def arrow_columns(schema: pa.Schema, names: Iterable[str]) -> list[ColumnFacts]:
    """Columns of an answer in Arrow. `names`: their unique names."""
    return [ColumnFacts(name=name, type=_arrow_text(field.type)) for name, field in zip(names, schema, strict=True)]


def query_facts(query: queries_pb2.Query, *, columns: bool) -> QueryFacts:
    """A query. `columns`: with the columns of its answer."""
    streams = list(query.streams) or [query.stream]
    facts = QueryFacts(statement=query.statement, streams=streams, window=query.window)
    if query.query_id:
        facts.query_id = query.query_id
    if query.key:
        facts.key = query.key
    if query.labels:
        facts.labels = dict(query.labels)
    if query.HasField("expire_time"):
        facts.expires = timestamp_text(query.expire_time)
    if query.query_id:
        facts.amount, facts.active = amount_name(query.amount), query.active
    if columns:
        facts.columns = columns_of(query.columns)
    return facts


def completeness_facts(contents: types_pb2.Completeness) -> CompletenessFacts:
    """The completeness of an answer."""
    fields = {"sequence": contents.sequence, "final": contents.final, **plain_fields(contents)}
    facts = {name: value for name, value in fields.items() if name in CompletenessFacts.model_fields}
    return CompletenessFacts(said=_said(contents), **facts)


def _said(contents: types_pb2.Completeness) -> str:
    missing = {name: _within(contents, name) for name in ("late", "ahead", "pending")}
    said = "The answer is final" if contents.final else f"The answer reflects event {contents.sequence}, and may change"
    words = {"late": "came too late", "ahead": "were too far ahead of the clock", "pending": "wait for the watermark"}
    parts = [f"{counted(number, 'tuple')} {words[name]}" for name, number in missing.items() if number]
    if contents.errors:
        parts.append(f"{counted(contents.errors, 'tuple')} could not be tested by WHERE")
    if contents.select_errors:
        parts.append(f"{counted(contents.select_errors, 'value')} could not be computed and are null")
    if contents.unknown:
        parts.append(f"{counted(contents.unknown, 'row')} have no known version of the table")
    if contents.truncated:
        parts.append("the window begins before the oldest tuple that is kept")
    return "; ".join([said, *parts, *derived_phrases(contents)]) + "."


def _within(contents: types_pb2.Completeness, name: str) -> int:
    """The tuples of a kind in the window; of the stream if the number for the window is not known."""
    field = f"{name}_in_window"
    has_own = contents.HasField(field)  # type: ignore[arg-type]  # it is the name of a field
    return int(getattr(contents, field if has_own else name))


def _type_text(kind: types_pb2.DataType) -> str:
    name = types_pb2.Kind.Name(kind.kind).removeprefix("KIND_")
    return f"{name}({kind.precision}, {kind.scale})" if kind.precision else name


def _arrow_text(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return next((name for is_kind, name in _ARROW_KINDS if is_kind(kind)), str(kind).upper())


_ARROW_KINDS = (
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_integer, "BIGINT"),
    (pa.types.is_floating, "DOUBLE"),
    (pa.types.is_string, "TEXT"),
    (pa.types.is_timestamp, "TIMESTAMP"),
    (pa.types.is_date, "DATE"),
)
