"""A text about the differences between an existing stream and a CREATE STREAM statement.

existing    CREATE STREAM s (a BIGINT) RETENTION 3 DAYS
commanded   CREATE STREAM s (a BIGINT, b TEXT) RETENTION 4 DAYS

    "it has no column b TEXT; RETENTION is 3 DAYS, not 4 DAYS"

A table and a stream differ in their kind, and the text tells no other difference. Hidden columns are never named.
"""

from __future__ import annotations

from collections.abc import Iterator

from psoup.derivation import Derivation
from psoup.model import Attribute, Retention, StreamSpec, TableSpec
from psoup.plan.canonical import describe_duration

_SHOWN = 8
"""The most differences that a message shows."""


def differences(existing: StreamSpec, wanted: StreamSpec) -> str:
    """Describe the differences, column by column and clause by clause. Returns "" if there are none."""
    if existing.noun != wanted.noun:
        return f"it is a {existing.noun}, not a {wanted.noun}"
    if (existing.derived is None) != (wanted.derived is None):
        return "it is derived by a SELECT" if existing.derived is not None else "it is not derived"
    differing = [
        *_derivation(existing.derived, wanted.derived),
        *_columns(existing, wanted),
        *_clauses(existing, wanted),
        *_table_clauses(existing, wanted),
    ]
    more = [f"and {len(differing) - _SHOWN} more"] if len(differing) > _SHOWN else []
    return "; ".join([*differing[:_SHOWN], *more])


def _derivation(existing: Derivation | None, wanted: Derivation | None) -> Iterator[str]:
    if existing is None or wanted is None:
        return
    if existing.select != wanted.select:
        yield f"its SELECT is {existing.select}"
    if existing.from_now != wanted.from_now:
        yield f"it begins FROM {'NOW' if existing.from_now else 'START'}"
    for word, is_now, other in (
        ("the operator", existing.operator.value, wanted.operator.value),
        ("EVERY", _duration(existing.every), _duration(wanted.every)),
        ("LAG AT MOST", _duration(existing.lag_limit), _duration(wanted.lag_limit)),
        ("STATE AT MOST", f"{existing.state_limit or 0:,} bytes", f"{wanted.state_limit or 0:,} bytes"),
    ):
        if is_now != other:
            yield f"{word} is {is_now}, not {other}"


def _columns(existing: StreamSpec, stated: StreamSpec) -> Iterator[str]:
    has, wanted = _named(existing), _named(stated)
    for name, column in wanted.items():
        if name not in has:
            yield f"it has no column {_written(column)}"
        elif has[name] != column:
            yield f"its column is {_written(has[name])}, not {_written(column)}"
    for name, column in has.items():
        if name not in wanted:
            yield f"it also has column {_written(column)}"
    if [*has] != [*wanted] and has.keys() == wanted.keys():
        yield f"its columns are in the order {', '.join(column.name for column in has.values())}"


def _clauses(existing: StreamSpec, stated: StreamSpec) -> Iterator[str]:
    if existing.name != stated.name:
        yield f"its name is written {existing.name}"
    for word, is_now, wanted in (
        ("TIMESTAMP BY", _column_name(existing, existing.time_attribute), _column_name(stated, stated.time_attribute)),
        ("LATENESS", describe_duration(existing.lateness), describe_duration(stated.lateness)),
        ("WATERMARK BY", _watermark(existing), _watermark(stated)),
        ("IDLE AFTER", _duration(existing.idle_after), _duration(stated.idle_after)),
        ("AHEAD", _ahead(existing), _ahead(stated)),
        ("RETENTION", _kept(existing.retention), _kept(stated.retention)),
        ("EXPIRES BY", existing.expires_by.lower() or "absent", stated.expires_by.lower() or "absent"),
    ):
        if is_now != wanted:
            yield f"{word} is {is_now}, not {wanted}"


def _table_clauses(existing: StreamSpec, stated: StreamSpec) -> Iterator[str]:
    """The differences in clauses that only tables have."""
    has, wanted = existing.table, stated.table
    if has is None or wanted is None:
        return
    for word, is_now, other in (
        ("PRIMARY KEY", _key(existing), _key(stated)),
        ("HISTORY", describe_duration(has.history), describe_duration(wanted.history)),
        ("DELETED FOR", describe_duration(has.deleted_for), describe_duration(wanted.deleted_for)),
        ("EXPIRES BY", _column_name(existing, has.expires), _column_name(stated, wanted.expires)),
        ("FIRST VERSION FROM", _first(has), _first(wanted)),
    ):
        if is_now != other:
            yield f"{word} is {is_now}, not {other}"


def _key(spec: StreamSpec) -> str:
    return f"({', '.join(spec.primary_key).lower()})"


def _first(table: TableSpec) -> str:
    return "ARRIVAL" if table.first_from_arrival else "START"


def _named(spec: StreamSpec) -> dict[str, Attribute]:
    return {column.name.lower(): column for column in spec.declared}


def _written(column: Attribute) -> str:
    return f"{column.name} {column.type}{'' if column.nullable else ' NOT NULL'}"


def _column_name(spec: StreamSpec, place: int | None) -> str:
    return "absent" if place is None else spec.schema.attributes[place].name.lower()


def _duration(micros: int | None) -> str:
    return "absent" if micros is None else describe_duration(micros)


def _watermark(spec: StreamSpec) -> str:
    return "CLOCK" if spec.by_clock else "ROWS"


def _ahead(spec: StreamSpec) -> str:
    return _duration(spec.ahead) if spec.ahead_stated else "the default"


def _kept(retention: Retention) -> str:
    """The text of a RETENTION clause in SQL, or `absent`."""
    whole = retention.duration if retention.rows is None else retention.rows
    if whole is None:
        return "absent"

    def part(size: int) -> str:
        return f"{size} ROWS" if retention.rows is not None else describe_duration(size)

    return part(whole - retention.archive) + (f" ARCHIVE {part(retention.archive)}" if retention.archive else "")
