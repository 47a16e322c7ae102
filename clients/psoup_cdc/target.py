"""The table of PSoup that takes the changes: its columns, its key, and its present versions.

    columns   id BIGINT, name TEXT, doc TEXT        key (0,)
    picker    for a RelationMessage with name, id, other, doc:     row ─> (row[1], row[0], row[3])

A column of the source that the table does not have is left out. A column that an old description of the source does not
have yet is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import pyarrow as pa

from psoup_cdc.pgoutput import Cell, SourceColumn
from psoup_cdc.values import fits, texts, to_column
from psoup_client import Client, ColumnInfo, FailedPrecondition, StreamInfo

DELETED = "_deleted"
"""The column of a push that deletes rows."""

_KEYS_OF_A_QUESTION = 200
"""The most keys in a statement that asks for present versions."""

Key = tuple[bytes | None, ...]
"""The values of the key's columns, in text form."""


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A table of PSoup. `key`: the places of the primary key's columns."""

    name: str
    stream_id: str
    columns: tuple[ColumnInfo, ...]
    key: tuple[int, ...]

    @staticmethod
    def of(info: StreamInfo) -> TargetTable:
        """Describe a table. Raises FailedPrecondition for a stream, and for a table in event time."""
        if not info.primary_key:
            raise FailedPrecondition(
                f"{info.name!r} is a stream, and changes of rows need a table: CREATE TABLE … (…, PRIMARY KEY (…))",
                reason="NOT_A_TABLE",
                facts={"stream": info.name},
            )
        if info.time_column:
            raise FailedPrecondition(
                f"table {info.name!r} has TIMESTAMP BY {info.time_column}, and changes of PostgreSQL have the time at"
                " which they come; create a table without TIMESTAMP BY",
                reason="TABLE_IN_EVENT_TIME",
                facts={"stream": info.name},
            )
        places = {column.name.lower(): place for place, column in enumerate(info.columns)}
        return TargetTable(
            info.name, info.stream_id, info.columns, tuple(places[name.lower()] for name in info.primary_key)
        )

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of the key's columns."""
        return tuple(self.columns[place].name for place in self.key)

    def key_of(self, row: Sequence[Any]) -> tuple[Any, ...]:
        """The key of a row."""
        return tuple(row[place] for place in self.key)


class Picker:
    """The way from a row of the source to a row of the table. `type_ids`: types of the values, by the table's columns.

    `places`: the places of the table's columns in the source, None without one. `count`: of the source's columns.
    `absent`: names of the table's columns that the source does not have.
    """

    def __init__(self, target: TargetTable, source: Sequence[SourceColumn]) -> None:
        places = {column.name.lower(): place for place, column in enumerate(source)}
        at = [places.get(column.name.lower()) for column in target.columns]
        self.absent = tuple(c.name for c, place in zip(target.columns, at, strict=True) if place is None)
        self.type_ids = tuple(0 if place is None else source[place].type_id for place in at)
        for column, place in zip(target.columns, at, strict=True):
            if place is not None and not fits(source[place], column):
                raise FailedPrecondition(
                    f"column {column.name!r} of table {target.name!r} is a {column.type}, and the source has another"
                    " type there; let it be TEXT, or the type that fits",
                    reason="SOURCE_TYPE",
                    facts={"column": column.name},
                )
        self.pick = _pick(at)
        self.places = tuple(at)
        self.count = len(source)


def _pick(places: Sequence[int | None]) -> Callable[[Sequence[Cell]], tuple[Cell, ...]]:
    whole = [place for place in places if place is not None]
    if len(whole) == len(places) > 1:
        return itemgetter(*whole)
    return lambda row: tuple(None if place is None else row[place] for place in places)


def typed(target: TargetTable, type_ids: Sequence[int], columns: Sequence[pa.Array], deleted: Any) -> pa.Table:
    """Make the table of a push from columns in text form. O(bytes)."""
    arrays = [
        to_column(cells, type_id, column)
        for cells, type_id, column in zip(columns, type_ids, target.columns, strict=True)
    ]
    return pa.table([*arrays, pa.array(deleted, pa.bool_())], [*(column.name for column in target.columns), DELETED])


def plain_keys(target: TargetTable, type_ids: Sequence[int], keys: Sequence[Key]) -> list[tuple[Any, ...]]:
    """Convert keys in text form to plain values."""
    columns = list(zip(*keys, strict=True))
    arrays = [
        to_column(texts(cells), type_ids[place], target.columns[place])
        for cells, place in zip(columns, target.key, strict=True)
    ]
    return list(zip(*(array.to_pylist() for array in arrays), strict=True))


def versions_in(target: TargetTable, rows: pa.Table) -> dict[tuple[Any, ...], tuple[bytes | None, ...]]:
    """The rows of a typed table in text form, by their keys as plain values. The last row of a key counts."""
    columns = [rows.column(column.name).to_pylist() for column in target.columns]
    return {target.key_of(row): tuple(map(_text, row)) for row in zip(*columns, strict=True)}


def present_versions(
    client: Client, target: TargetTable, keys: Iterable[tuple[Any, ...]]
) -> dict[tuple[Any, ...], tuple[bytes | None, ...]]:
    """The versions that the service has now, in text form, by their keys as plain values. A call for 200 keys."""
    wanted, versions = list(keys), dict[tuple[Any, ...], tuple[bytes | None, ...]]()
    names = ", ".join(quoted(column.name) for column in target.columns)
    condition = " AND ".join(f"{quoted(name)} = ?" for name in target.key_names)
    for start in range(0, len(wanted), _KEYS_OF_A_QUESTION):
        some = wanted[start : start + _KEYS_OF_A_QUESTION]
        where = " OR ".join([f"({condition})"] * len(some))
        statement = f"SELECT {names} FROM {quoted(target.name)} WHERE {where}"
        answer = client.ask(statement, [value for key in some for value in key])
        versions |= versions_in(target, answer.to_arrow())
    return versions


def present_keys(client: Client, target: TargetTable) -> pa.Table:
    """The keys of all rows that the table has now."""
    names = ", ".join(quoted(name) for name in target.key_names)
    return client.ask(f"SELECT {names} FROM {quoted(target.name)}").to_arrow()


def deletions(target: TargetTable, keys: pa.Table) -> pa.Table:
    """Make the table of a push that deletes these keys."""
    arrays = [
        keys.column(column.name) if column.name in keys.column_names else pa.nulls(keys.num_rows, column.arrow)
        for column in target.columns
    ]
    names = [*(column.name for column in target.columns), DELETED]
    return pa.table([*arrays, pa.array([True] * keys.num_rows, pa.bool_())], names)


def quoted(name: str) -> str:
    """Write a name as an identifier of SQL."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _text(value: Any) -> bytes | None:
    return None if value is None else str(value).encode()
