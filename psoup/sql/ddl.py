"""CREATE, ALTER and DROP of streams and tables: from the syntax tree to a `StreamSpec`, or to a change.

    CREATE STREAM s (attr TYPE [NOT NULL], …) [TIMESTAMP BY attr [LATENESS n unit] [WATERMARK BY CLOCK | ROWS]
        [IDLE AFTER n unit] [AHEAD n unit]]
        [RETENTION n unit [ARCHIVE n unit] | RETENTION n ROWS [ARCHIVE n ROWS]]
    ALTER STREAM s ADD [COLUMN] [IF NOT EXISTS] attr TYPE, ADD …
    ALTER STREAM s AHEAD n unit | AHEAD DEFAULT | LATENESS n unit | WATERMARK BY CLOCK | WATERMARK BY ROWS
    ALTER STREAM s SUSPEND | RESUME [FROM NOW]
    DROP STREAM | TABLE [IF EXISTS] s [CASCADE]
    CREATE TABLE, ALTER TABLE   as above, without RETENTION, with a primary key (`psoup.sql.table_spec`)
    CREATE TABLE t FROM STREAM s PRIMARY KEY (attr, …)   with the columns and the times of s

Admission checks whether the stream exists, and which columns it has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from psoup.derivation import INSTANT, Derivation
from psoup.model import RESERVED_NAMES, TIMESTAMP, Attribute, Kind, Retention, Schema, StreamSpec
from psoup.plan.canonical import describe_duration
from psoup.sql.derive_options import option_texts
from psoup.sql.identifiers import name_text
from psoup.sql.source import Place, StatementText, nearest
from psoup.sql.table_spec import table_options, table_schema
from psoup.sql.types import data_type
from psoup.sql.windows import MAX_TIME, duration, is_rows, row_count

MAX_ATTRIBUTES = 1_000
MAX_NAME = 128
"""The longest name of a stream or an attribute, in characters."""


def create_statement(spec: StreamSpec) -> str:
    """The CREATE STREAM or CREATE TABLE statement for `spec`, the inverse of `stream_spec`."""
    if spec.derived is not None:
        return _derive_statement(spec, spec.derived)
    columns, options = [_column_text(attribute) for attribute in spec.declared], list[str]()
    if spec.table is not None:
        key, options = table_options(spec, spec.table)
        columns.append(key)
    parts = [f"CREATE {spec.noun.upper()} {name_text(spec.name)} ({', '.join(columns)})"]
    if spec.time_attribute is not None:
        parts.append(f"TIMESTAMP BY {name_text(spec.schema.attributes[spec.time_attribute].name)}")
    if spec.lateness:
        parts.append(f"LATENESS {describe_duration(spec.lateness)}")
    if spec.by_clock:
        parts.append("WATERMARK BY CLOCK")
    if spec.idle_after is not None:
        parts.append(f"IDLE AFTER {describe_duration(spec.idle_after)}")
    if spec.ahead is not None and spec.ahead_stated:
        parts.append(f"AHEAD {describe_duration(spec.ahead)}")
    return " ".join([*parts, *_retention_texts(spec.retention), *options])


def _derive_statement(spec: StreamSpec, derived: Derivation) -> str:
    names = ", ".join(name_text(attribute.name) for attribute in spec.declared)
    end = "\n" if "--" in derived.select.rpartition("\n")[-1] else ""  # perhaps a comment, which would take the )
    create = f"CREATE STREAM {name_text(spec.name)} ({names}) AS {derived.operator.value} ({derived.select}{end})"
    return " ".join([create, *option_texts(derived), *_retention_texts(spec.retention)])


def columns_statement(spec: StreamSpec) -> str:
    """A CREATE STREAM statement with the columns and the retention of a derived stream, without its SELECT."""
    return create_statement(replace(spec, schema=Schema(spec.declared), time_attribute=None, ahead=None, derived=None))


def with_derivation(spec: StreamSpec, derived: Derivation) -> StreamSpec:
    """The derived stream with the columns and the retention of `spec`, the inverse of `columns_statement`."""
    columns = spec.schema.attributes
    return replace(spec, schema=Schema((*columns, _INSTANT)), time_attribute=len(columns), ahead=0, derived=derived)


_INSTANT = Attribute(INSTANT, TIMESTAMP, hidden=True)


def _retention_texts(span: Retention) -> list[str]:
    whole, text = (span.duration, describe_duration) if span.rows is None else (span.rows, "{} ROWS".format)
    if whole is None:
        return []
    archive = [f"ARCHIVE {text(span.archive)}"] if span.archive else []
    return [f"RETENTION {text(whole - span.archive)}", *archive]


def alter_statement(change: Alteration) -> str:
    """The ALTER statement of a change. The inverse of `alteration`, but for IF NOT EXISTS."""
    noun = "TABLE" if change.table else "STREAM"
    return f"ALTER {noun} {name_text(change.stream)} {_change_text(change)}"


def _change_text(change: Alteration) -> str:
    if change.pump:
        return change.pump
    if change.by_clock is not None:
        return f"WATERMARK BY {'CLOCK' if change.by_clock else 'ROWS'}"
    if change.lateness is not None:
        return f"LATENESS {describe_duration(change.lateness)}"
    if change.history is not None:
        return f"HISTORY {describe_duration(change.history)}"
    if change.deleted_for is not None:
        return f"DELETED FOR {describe_duration(change.deleted_for)}"
    if change.expires is not None:
        return f"EXPIRES BY {name_text(change.expires)}" if change.expires else "EXPIRES NEVER"
    if change.default_ahead:
        return "AHEAD DEFAULT"
    if change.ahead is not None:
        return f"AHEAD {describe_duration(change.ahead)}"
    return ", ".join(f"ADD COLUMN {_column_text(attribute)}" for attribute in change.attributes)


def _column_text(attribute: Attribute) -> str:
    return f"{name_text(attribute.name)} {attribute.type}{'' if attribute.nullable else ' NOT NULL'}"


@dataclass(frozen=True, slots=True)
class Alteration:
    """The change of an ALTER statement: new `attributes`, or another value of an option.

    `table`: whether it is ALTER TABLE, which may change `history`, `deleted_for` and `expires`. `expires`: the column
    of EXPIRES BY, "" for EXPIRES NEVER. The stream must have it (`psoup.admission.definitions`).

    `lenient`: names of attributes that the stream may have already. `default_ahead`: whether the statement says AHEAD
    DEFAULT. Then `ahead` is the service's default; None straight from the statement.

    `pump`: SUSPEND, RESUME or RESUME FROM NOW for a derived stream, else "". Admission knows the definition after it.
    """

    stream: str
    attributes: tuple[Attribute, ...] = ()
    lenient: frozenset[str] = frozenset()
    ahead: int | None = None
    default_ahead: bool = False
    lateness: int | None = None
    by_clock: bool | None = None
    table: bool = False
    history: int | None = None
    deleted_for: int | None = None
    expires: str | None = None
    pump: str = ""

    @property
    def of_ahead(self) -> bool:
        """Whether the change is of AHEAD."""
        return self.default_ahead or self.ahead is not None

    def of(self, spec: StreamSpec) -> StreamSpec:
        """The definition of the stream after the change."""
        if self.pump:
            return spec
        if self.of_ahead:
            return replace(spec, ahead=self.ahead, ahead_stated=not self.default_ahead)
        if self.lateness is not None:
            return replace(spec, lateness=self.lateness)
        if self.by_clock is not None:
            return replace(spec, by_clock=self.by_clock)
        if spec.table is not None and self.history is not None:
            return replace(spec, table=replace(spec.table, history=self.history))
        if spec.table is not None and self.deleted_for is not None:
            return replace(spec, table=replace(spec.table, deleted_for=self.deleted_for))
        if spec.table is not None and self.expires is not None:
            place = spec.schema.index(self.expires) if self.expires else None
            return replace(spec, table=replace(spec.table, expires=place))
        return spec.with_columns(self.attributes)


def alteration(source: StatementText, node: exp.Expr) -> Alteration:
    """The change in an `AlterStreamNode`. Raises SqlError."""
    table = bool(node.args.get("table"))
    name, watermark = stated_name(source, node.this, "table" if table else "stream"), node.args.get("watermark")
    if node.args.get("default_ahead"):
        return Alteration(name, default_ahead=True, table=table)
    if watermark is not None:
        return Alteration(name, by_clock=_by_clock(watermark), table=table)
    if (pump := node.args.get("pump")) is not None:
        return Alteration(name, pump=pump)
    if node.args.get("never_expires"):
        return Alteration(name, table=table, expires="")
    if (column := node.args.get("expires")) is not None:
        return Alteration(name, table=table, expires=column.name)
    for option, (field, word) in _ALTERED.items():
        if (value := node.args.get(option)) is not None:
            changed: dict[str, Any] = {field: duration(source, value, word)}
            return Alteration(name, table=table, **changed)
    for column in node.expressions:
        if column.args.get("not_null"):
            hint = "leave NOT NULL out; WHERE can ask for IS NOT NULL"
            raise source.error("an added column is NULL in the tuples that are there already", column.this, hint=hint)
    attributes = _attributes(source, node.expressions)
    return Alteration(name, attributes, frozenset(node.args.get("lenient") or ()), table=table)


_ALTERED = {
    "ahead": ("ahead", "AHEAD"),
    "lateness": ("lateness", "LATENESS"),
    "history": ("history", "HISTORY"),
    "deleted": ("deleted_for", "DELETED FOR"),
}
"""The options with a duration, by their names in the syntax tree: the field of the change, and the words."""


@dataclass(frozen=True, slots=True)
class Dropping:
    """The stream or table in DROP. `lenient`: a missing one is not an error. `cascade`: its queries are dropped too.

    `table`: whether it is DROP TABLE.
    """

    stream: str
    lenient: bool
    cascade: bool
    table: bool = False


def dropping(source: StatementText, node: exp.Expr) -> Dropping:
    """The stream in a `DropStreamNode`. Raises SqlError."""
    lenient, cascade, table = (bool(node.args.get(word)) for word in ("lenient", "cascade", "table"))
    return Dropping(stated_name(source, node.this, "table" if table else "stream"), lenient, cascade, table)


def stream_spec(source: StatementText, node: exp.Expr) -> StreamSpec:
    """The stream or table in a `CreateStreamNode`. Raises SqlError."""
    schema, table = _schema(source, node), None
    if node.args.get("table"):
        timed = node.args.get("timestamp") is not None
        schema, table = table_schema(source, node, schema.attributes, timed=timed)
    position = _time_attribute(source, schema, node.args.get("timestamp"))
    table = None if table is None else replace(table, timed=position)
    for option, word in _OF_EVENT_TIME.items():
        value = node.args.get(option)
        if value is not None and position is None:
            raise source.error(f"{word} needs TIMESTAMP BY", value, hint="say which column is the time")
    lateness, ahead, watermark = (node.args.get(option) for option in ("lateness", "ahead", "watermark"))
    by_clock = _by_clock(watermark)
    return StreamSpec(
        stated_name(source, node.this, "stream"),
        schema,
        position,
        0 if lateness is None else duration(source, lateness, "LATENESS"),
        _idle_after(source, node.args.get("idle"), by_clock),
        retention_of(source, node.args.get("retention"), node.args.get("archive")),
        None if ahead is None else duration(source, ahead, "AHEAD"),
        by_clock=by_clock,
        table=table,
    )


def table_of_stream(source: StatementText, node: exp.Expr, stream: StreamSpec) -> StreamSpec:
    """The table in a `CreateStreamNode` with FROM STREAM. It has the columns and the times of `stream`.

    Raises SqlError.
    """
    for option, word in ({"timestamp": "TIMESTAMP BY"} | _OF_EVENT_TIME).items():
        if (value := node.args.get(option)) is not None:
            hint = "leave it out; ALTER TABLE may change LATENESS, AHEAD and WATERMARK BY afterwards"
            raise source.error(f"{word} comes from stream {stream.name!r}, as all of its times do", value, hint=hint)
    if stream.derived is not None:
        hint = f"CREATE TABLE with its columns, and push the rows of SELECT … FROM {stream.name} into it"
        raise source.unsupported("FROM STREAM of a derived stream", node.args["origin"], hint=hint, yet=True)
    if stream.table is not None:
        hint = "FROM STREAM takes a stream; to copy a table, push the rows of a SELECT into another one"
        raise source.error(f"{stream.name!r} is a table", node.args["origin"], hint=hint, reason="WRONG_KIND")
    schema, table = table_schema(source, node, stream.schema.attributes, timed=stream.event_time)
    position, hidden = stream.time_attribute, len(schema.attributes) - len(stream.schema.attributes)
    position = None if position is None else position + hidden
    return replace(
        stream,
        name=stated_name(source, node.this, "table"),
        schema=schema,
        time_attribute=position,
        retention=Retention(),
        table=replace(table, timed=position),
    )


_OF_EVENT_TIME = {"lateness": "LATENESS", "idle": "IDLE AFTER", "ahead": "AHEAD", "watermark": "WATERMARK BY"}
"""The options of streams in event time, by their names in the syntax tree."""


def _by_clock(watermark: exp.Expr | None) -> bool:
    """Whether WATERMARK BY names the clock. False without it."""
    return watermark is not None and watermark.name.upper() == "CLOCK"


def _idle_after(source: StatementText, node: exp.Expr | None, by_clock: bool) -> int | None:
    if node is None:
        return None
    idle_after = duration(source, node, "IDLE AFTER")
    if not idle_after:
        hint = "for the last minutes of a quiet stream write WATERMARK BY CLOCK"
        raise source.error("IDLE AFTER must be longer than 0", node, hint=hint)
    if by_clock:
        hint = "leave IDLE AFTER out: WATERMARK BY CLOCK moves the watermark of a quiet stream"
        raise source.error("IDLE AFTER and WATERMARK BY CLOCK exclude each other", node, hint=hint)
    return idle_after


def _schema(source: StatementText, node: exp.Expr) -> Schema:
    columns = node.expressions
    if len(columns) > MAX_ATTRIBUTES:
        raise source.error(f"a stream has at most {MAX_ATTRIBUTES:,} columns", columns[MAX_ATTRIBUTES])
    return Schema(_attributes(source, columns))


def _attributes(source: StatementText, columns: list[exp.Expr]) -> tuple[Attribute, ...]:
    seen: set[str] = set()
    attributes = []
    for column in columns:
        name = stated_name(source, column.this, "column")
        at = column.this
        if name.lower() in seen:
            raise source.error(f"column {name!r} is declared twice", at, hint="names do not differ by case")
        if name.lower() in RESERVED_NAMES:
            raise source.error(f"{name!r} is reserved: every stream has it already", at)
        seen.add(name.lower())
        kind = data_type(source, column.args["kind"])
        attributes.append(Attribute(name, kind, not column.args.get("not_null")))
    return tuple(attributes)


def stated_name(source: StatementText, node: exp.Expr, noun: str) -> str:
    """The text of an identifier, if it can name a stream, table or column. Raises SqlError."""
    name = str(node.this)
    check_name(source, name, node, noun)
    return name


def check_name(source: StatementText, name: str, at: Place, noun: str, way: str = "") -> None:
    """Raise SqlError unless a text can name a stream, table or column. `way`: how to give it another name."""
    if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        hint = f"a name has 1 to {MAX_NAME} printable characters{way}"
        raise source.error(f"{name[:40]!r} cannot name a {noun}", at, hint=hint)


def _time_attribute(source: StatementText, schema: Schema, node: exp.Expr | None) -> int | None:
    if node is None:
        return None
    position = schema.index(node.name)
    if position is None:
        hint = nearest(node.name, schema.names)
        raise source.error(f"there is no column {node.name!r}", node, hint=hint, reason="UNKNOWN_COLUMN")
    attribute = schema.attributes[position]
    if attribute.type.kind is not Kind.TIMESTAMP:
        raise source.error(
            f"TIMESTAMP BY needs a TIMESTAMP, and {attribute.name!r} is {attribute.type}",
            node,
            reason="TYPE_MISMATCH",
        )
    return position


def retention_of(source: StatementText, node: exp.Expr | None, archive: exp.Expr | None) -> Retention:
    """The retention of the options RETENTION and ARCHIVE. Raises SqlError."""
    if node is None:
        if archive is not None:
            hint = "say how much stays in memory: RETENTION 7 DAYS ARCHIVE 400 DAYS"
            raise source.error("ARCHIVE needs RETENTION", archive, hint=hint)
        return Retention()
    if archive is not None and is_rows(node) != is_rows(archive):
        raise source.error("RETENTION and ARCHIVE count in the same way", archive, hint="both in time, or both in ROWS")
    hot, cold = _amount(source, node, "RETENTION"), 0 if archive is None else _amount(source, archive, "ARCHIVE")
    if hot + cold >= MAX_TIME:
        assert archive is not None
        raise source.error("RETENTION and ARCHIVE together are out of range", archive)
    return Retention(rows=hot + cold, archive=cold) if is_rows(node) else Retention(hot + cold, archive=cold)


def _amount(source: StatementText, node: exp.Expr, clause: str) -> int:
    """The number of rows or microseconds in RETENTION or ARCHIVE. Raises SqlError for 0."""
    if is_rows(node):
        return row_count(source, node, clause)
    amount = duration(source, node, clause)
    if not amount:
        raise source.error(f"{clause} must be longer than 0", node)
    return amount
