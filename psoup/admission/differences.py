"""The differences between two definitions of a stream, in words: what CREATE STREAM says, and what is there.

there  CREATE STREAM s (a BIGINT) RETENTION 3 DAYS
said   CREATE STREAM s (a BIGINT, b TEXT) RETENTION 4 DAYS
       "it has no column b TEXT; RETENTION is 3 DAYS, not 4 DAYS"
"""

from __future__ import annotations

from collections.abc import Iterator

from psoup.model import Attribute, Retention, StreamSpec
from psoup.plan.canonical import describe_duration

_SHOWN = 8


def differences(there: StreamSpec, said: StreamSpec) -> str:
    """Say what differs, column by column and clause by clause; "" if nothing does."""
    found = [*_columns(there, said), *_clauses(there, said)]
    more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    return "; ".join([*found[:_SHOWN], *more])


def _columns(there: StreamSpec, said: StreamSpec) -> Iterator[str]:
    has, wanted = _named(there), _named(said)
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


def _clauses(there: StreamSpec, said: StreamSpec) -> Iterator[str]:
    if there.name != said.name:
        yield f"its name is written {there.name}"
    for word, is_now, wanted in (
        ("TIMESTAMP BY", _time(there), _time(said)),
        ("LATENESS", describe_duration(there.lateness), describe_duration(said.lateness)),
        ("IDLE AFTER", _duration(there.idle_after), _duration(said.idle_after)),
        ("AHEAD", _duration(there.ahead), _duration(said.ahead)),
        ("RETENTION", _kept(there.retention), _kept(said.retention)),
    ):
        if is_now != wanted:
            yield f"{word} is {is_now}, not {wanted}"


def _named(spec: StreamSpec) -> dict[str, Attribute]:
    return {column.name.lower(): column for column in spec.schema.attributes}


def _written(column: Attribute) -> str:
    return f"{column.name} {column.type}{'' if column.nullable else ' NOT NULL'}"


def _time(spec: StreamSpec) -> str:
    return "absent" if spec.time_attribute is None else spec.schema.attributes[spec.time_attribute].name.lower()


def _duration(micros: int | None) -> str:
    return "absent" if micros is None else describe_duration(micros)


def _kept(retention: Retention) -> str:
    """A RETENTION as it is written."""
    whole = retention.duration if retention.rows is None else retention.rows
    if whole is None:
        return "absent"

    def part(size: int) -> str:
        return f"{size} ROWS" if retention.rows is not None else describe_duration(size)

    return part(whole - retention.archive) + (f" ARCHIVE {part(retention.archive)}" if retention.archive else "")
