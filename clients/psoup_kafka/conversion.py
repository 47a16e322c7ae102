"""Records of Kafka as the rows of one push, by the conversion that the SDK has for rows.

    values in JSON of plain form ──Arrow──> table
    other values ──one by one──> dicts
    tombstones ──key──> deletions from a table

All three are sifted: rows that fit are pushed, and other records go to the quarantine, with their reasons.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from confluent_kafka import Message

from psoup_client import InvalidData, StreamInfo
from psoup_client.columns.casts import TimeOptions
from psoup_client.columns.convert import DELETION, PATCH
from psoup_client.ingest.deletions import marked, of_keys
from psoup_client.ingest.row_filter import Sifted, sift
from psoup_kafka.quarantine import Poison
from psoup_proto.json_rows.plain_lines import count_plain, read_plain
from psoup_proto.json_rows.text import JsonFault, json_kind, json_value

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_HIDDEN = (DELETION.name, PATCH.name)


class Fields(Protocol):
    """The mapping from names in records to columns. `psoup_cli.files.header.FieldNames` is one."""

    def of_row(self, row: dict[str, Any]) -> dict[str, Any]:
        """Rename the fields of a row to columns. Raises InvalidData."""
        ...

    def column(self, field: str) -> str | None:
        """The column of a field; None for one that is left out. Raises InvalidData for an unknown one."""
        ...


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """The columns that get facts about a record; "" for none. Such a column replaces a field of the same name."""

    key: str = ""
    timestamp: str = ""
    partition: str = ""
    offset: str = ""

    def named(self) -> list[tuple[str, str]]:
        """The facts that have a column, each with its column."""
        facts = ("key", "timestamp", "partition", "offset")
        return [(fact, getattr(self, fact)) for fact in facts if getattr(self, fact)]


@dataclass(frozen=True, slots=True)
class Target:
    """The stream or table that takes the records. `text_bytes`: the greatest size of a text, 0 for no limit.

    `read_value`: reads a value or a key in another form than JSON; raises InvalidData.
    """

    info: StreamInfo
    fields: Fields
    columns: RecordColumns = field(default_factory=RecordColumns)
    times: TimeOptions = field(default_factory=TimeOptions)
    text_bytes: int = 0
    read_value: Callable[[bytes], Any] | None = None


@dataclass(frozen=True, slots=True)
class Converted:
    """The rows that fit, in the order of their records, and the other records."""

    table: pa.Table
    poison: list[Poison]


class Converter:
    """Converts runs of records for one target."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._types = {column.name: column.arrow for column in target.info.columns}
        self._sql = {column.name: column.type for column in target.info.columns}
        for fact, name in target.columns.named():
            if name not in self._types:
                raise InvalidData(
                    f"--{fact}-column {name}: {target.info.kind} {target.info.name!r} has no such column, only"
                    f" {', '.join(self._types)}",
                    facts={"column": name},
                )

    def convert(self, messages: Sequence[Message]) -> Converted:
        """Convert records of one partition, in the order of their offsets. Raises errors of the schema registry.

        O(bytes); ten times as long if one record is not in the plain form of JSON.
        """
        values = list(map(Message.value, messages))
        table = self._at_once(messages, values) if self._target.read_value is None else None
        if table is not None:
            return self._sifted(messages, self._sift(table), range(len(messages)), {})
        return self._one_by_one(messages, values)

    def _sift(self, rows: Any) -> Sifted:
        return sift(rows, self._target.info, self._target.times, self._target.text_bytes)

    # All values together -----------------------------------------------------------------------------

    def _at_once(self, messages: Sequence[Message], values: Sequence[Any]) -> pa.Table | None:
        """The table of values in plain form; None if they must be read one by one."""
        if None in values or self._target.times.zone is not None or self._target.times.formats:
            return None
        data = b"\n".join(values)
        if count_plain(data) != len(values):
            return None
        names = self._names(values[0])
        if names is None:
            return None
        types = {name: self._types[column] for name, column in names.items()}
        arrays = read_plain(data, len(values), types, self._ignored)
        if arrays is None:
            return None
        given = {names[name]: array for name, array in arrays.items()}
        try:
            for fact, column in self._target.columns.named():
                given[column] = pa.array([self._fact(fact, column, message) for message in messages])
        except (InvalidData, pa.ArrowException, OverflowError):  # a key may have more than 64 bits
            return None
        return pa.table(given)

    def _names(self, first: bytes) -> dict[str, str] | None:
        """The column of each name that values may have, as the first value has them; None for an unknown name."""
        try:
            row = json_value(first)
            columns = {name: self._target.fields.column(name) for name in row}
        except (JsonFault, InvalidData):
            return None
        names = {name: column for name, column in columns.items() if column is not None and column not in _HIDDEN}
        if len(set(names.values())) < len(names) or any(column in _HIDDEN for column in columns.values()):
            return None
        missing = [column for column in self._types if column not in names.values() and column not in columns]
        return names | {column: column for column in missing}

    def _ignored(self, name: str) -> bool:
        try:
            return self._target.fields.column(name) is None
        except InvalidData:
            return False

    # One by one --------------------------------------------------------------------------------------

    def _one_by_one(self, messages: Sequence[Message], values: Sequence[Any]) -> Converted:
        rows, places = list[dict[str, Any]](), list[int]()
        keys, key_places = list[dict[str, Any]](), list[int]()
        refused = dict[int, str]()
        for place, (message, value) in enumerate(zip(messages, values, strict=True)):
            try:
                if value is None:
                    keys.append(self._deleted(message))
                    key_places.append(place)
                else:
                    rows.append(self._row(message, value))
                    places.append(place)
            except InvalidData as problem:
                refused[place] = problem.message
        if rows:  # each column is there, so that a missing value is the fault of its row
            rows[0] = dict.fromkeys(self._types) | rows[0]
        sifted = self._sift(rows)
        if not keys:
            return self._sifted(messages, sifted, places, refused)
        gone = sift(keys, of_keys(self._target.info), self._target.times, self._target.text_bytes)
        return self._sifted(messages, *_joined(sifted, places, gone, key_places), refused)

    def _row(self, message: Message, value: bytes) -> dict[str, Any]:
        row = self._read(value)
        if not isinstance(row, dict):
            raise InvalidData(f"it is {json_kind(row)}, and a row is an object")
        row = self._target.fields.of_row(row)
        if hidden := next((name for name in _HIDDEN if name in row and name not in self._types), None):
            raise InvalidData(f"it has the field {hidden!r}; a deletion is a record without a value (a tombstone)")
        for fact, column in self._target.columns.named():
            row[column] = self._fact(fact, column, message)
        return row

    def _read(self, data: bytes) -> Any:
        if self._target.read_value is not None:
            return self._target.read_value(data)
        try:
            return json_value(data)
        except JsonFault as problem:
            raise InvalidData(str(problem)) from None

    def _deleted(self, message: Message) -> dict[str, Any]:
        """The key of a tombstone, as a row. Raises InvalidData."""
        info = self._target.info
        if not info.primary_key:
            raise InvalidData(
                "it has no value (a tombstone); a stream only grows, and a table deletes the row of the key"
            )
        raw = message.key()
        if raw is None:
            raise InvalidData("it has neither a value nor a key")
        key = self._key(raw)
        if isinstance(key, dict):
            row = self._target.fields.of_row(key)
            absent = [name for name in info.primary_key if row.get(name) is None]
            if absent:
                raise InvalidData(f"it has no value (a tombstone), and its key lacks {absent[0]!r} of the primary key")
            row = {name: row[name] for name in info.primary_key}
        elif len(info.primary_key) == 1:
            row = {info.primary_key[0]: _scalar(key, raw, self._sql[info.primary_key[0]])}
        else:
            names = ", ".join(info.primary_key)
            raise InvalidData(f"it has no value (a tombstone), and its key is not an object with the fields {names}")
        if info.time_column and info.time_column not in row:
            row[info.time_column] = _time(message)
        return row

    def _key(self, raw: bytes) -> Any:
        """A key in Avro or JSON; bytes of another form are a text."""
        if self._target.read_value is not None and raw[:1] == b"\0":
            return self._target.read_value(raw)
        try:
            return json_value(raw)
        except JsonFault:
            return None

    def _fact(self, fact: str, column: str, message: Message) -> Any:
        match fact:
            case "partition":
                return message.partition()
            case "offset":
                return message.offset()
            case "timestamp":
                return _time(message)
        raw = message.key()
        return None if raw is None else _scalar(self._key(raw), raw, self._sql[column])

    def _sifted(
        self, messages: Sequence[Message], sifted: Sifted, places: Sequence[int], refused: dict[int, str]
    ) -> Converted:
        """The outcome for all records. `places`: of the sifted rows; `refused`: reasons for other places."""
        reasons = refused | {int(places[row]): why for row, why in sifted.refused.items()}
        return Converted(sifted.table, [Poison(messages[place], reasons[place]) for place in sorted(reasons)])


def _joined(rows: Sifted, places: Sequence[int], gone: Sifted, gone_places: Sequence[int]) -> tuple[Sifted, list[int]]:
    """Rows and deletions in the order of their records, and their places."""
    added = rows.table.append_column(DELETION.name, pa.array([False] * rows.table.num_rows, pa.bool_()))
    table = pa.concat_tables([added, marked(gone.table)], promote_options="default")
    origins = [places[row] for row in rows.kept] + [gone_places[row] for row in gone.kept]
    count = len(places)
    reasons = rows.refused | {count + row: why for row, why in gone.refused.items()}
    order = np.argsort(origins)
    return Sifted(table.take(pa.array(order, pa.int64())), order, reasons), [*places, *gone_places]


def _scalar(key: Any, raw: bytes, kind: str) -> Any:
    """A key as the value of a column. A TEXT takes its text, or the string of its JSON. Raises InvalidData."""
    if isinstance(key, str) or (key is not None and kind != "TEXT" and not isinstance(key, dict | list)):
        return key
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise InvalidData("its key is not UTF-8") from None


def _time(message: Message) -> dt.datetime | None:
    """The timestamp of a record; None if it has none. Raises InvalidData: a producer may send any 64 bits."""
    kind, millis = message.timestamp()
    try:
        return _EPOCH + dt.timedelta(milliseconds=millis) if kind else None
    except OverflowError:
        raise InvalidData(f"its timestamp, {millis} ms since 1970, does not fit TIMESTAMP") from None
