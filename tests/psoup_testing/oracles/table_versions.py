"""A table, naively: a list of entries, and loops that find the versions.

    push ─> `ModelStream` ─> released entries, in stream order ─ by key ─> versions with [begin, end)

An entry is a row of the model: whether it deletes, then the declared columns. A patch has PATCHES there, and KEPT in
place of the values that it keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psoup.model import StreamSpec
from psoup_testing.histories.values import Value
from psoup_testing.oracles.model import ModelStream

BEGINNING = -(2**63)
FOREVER = 2**63 - 1
KEPT: Any = "the value of the entry before"
PATCHES = "patches"
"""In place of `deletes` in the entry of a patch."""


@dataclass(frozen=True, slots=True)
class Version:
    """A row with the time from which it holds, and the time at which it ends. `row`: the declared columns."""

    tuple_id: int
    time: int
    begin: int
    end: int
    row: tuple[Value, ...]

    def holds(self, at: int | None) -> bool:
        """Whether the version holds at a time. None: at present."""
        return self.end == FOREVER if at is None else self.begin <= at < self.end


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a table from the tuple ID `first_id` on, in microseconds.

    `exact_from`, `forgotten_before`: the times before which shorter options have lost versions and deletions.
    """

    first_id: int
    history: int
    deleted_for: int
    exact_from: int = BEGINNING
    forgotten_before: int = BEGINNING

    def changed(self, stream: ModelStream, history: int, deleted_for: int) -> Options:
        """The options after ALTER TABLE."""
        now, first_id = stream.watermark, len(stream.released())
        exact, forgotten = self.exact_from, self.forgotten_before
        if now is not None and history > self.history:
            exact = max(exact, now - self.history)
        if now is not None and max(history, deleted_for) > max(self.history, self.deleted_for):
            forgotten = max(forgotten, now - max(self.history, self.deleted_for))
        return Options(first_id, history, deleted_for, exact, forgotten)

    def forgets(self, deleted: int, time: int) -> bool:
        """Whether a deletion is forgotten at a time."""
        return deleted < max(time - max(self.deleted_for, self.history), self.forgotten_before)


def options_of(spec: StreamSpec) -> Options:
    """The options of a CREATE TABLE statement."""
    assert spec.table is not None
    return Options(0, spec.table.history, spec.table.deleted_for)


@dataclass
class NaiveTable:
    """A table. `stream` takes its pushes. `spec`: its definition, for the key. `options`: all that it has had."""

    stream: ModelStream
    spec: StreamSpec
    options: Sequence[Options]

    def push(self, rows: list[tuple[Value, ...]], clock: int) -> tuple[int, int, int]:
        """Take the entries of a batch; returns how many were accepted, late, and too far ahead.

        A key without a version, or with a forgotten deletion, is never late.
        """
        watermark = self.stream.watermark
        newest = {self._key(row): row for _, _, _, row in self.stream.released()}

        def is_new(row: tuple[Value, ...]) -> bool:
            before = newest.get(self._key(row))
            assert watermark is not None
            if before is None:
                return True
            return before[0] is True and self.options[-1].forgets(self._time(before), watermark)

        return self.stream.push(rows, clock, is_new)

    def _key(self, row: tuple[Value, ...]) -> tuple[Value, ...]:
        assert self.spec.table is not None
        return tuple(row[place - 1] for place in self.spec.table.key)

    def _time(self, row: tuple[Value, ...]) -> int:
        """The own time of an entry in event time."""
        assert self.spec.time_attribute is not None
        time = row[self.spec.time_attribute - 1]
        assert isinstance(time, int)
        return time

    def versions(self) -> list[Version]:
        """All versions, in stream order. Deletions are not among them."""
        table = self.spec.table
        assert table is not None
        last: dict[tuple[Value, ...], Version | None] = {}
        deleted: dict[tuple[Value, ...], int] = {}
        versions: list[Version] = []
        for tuple_id, (place_in_time, _, _, (deletes, *row)) in enumerate(self.stream.released()):
            time = self._time((deletes, *row)) if self.spec.event_time else place_in_time
            key = self._key((deletes, *row))
            before = last.get(key)
            if deletes is PATCHES:
                row = _resolved(row, () if before is None else before.row)
            if before is not None:
                versions[versions.index(before)] = _ended(before, time)
            if deletes is True:
                last[key], deleted[key] = None, time
                continue
            options = [options for options in self.options if options.first_id <= tuple_id][-1]
            forgotten = key in deleted and before is None and options.forgets(deleted[key], place_in_time)
            first = key not in last or forgotten
            begin = BEGINNING if first and not table.first_from_arrival else time
            last[key] = Version(tuple_id, time, begin, FOREVER, tuple(row))
            versions.append(last[key])  # type: ignore[arg-type]
        return versions

    def rows(self, at: int | None, clock: int) -> list[tuple[Value, ...]]:
        """The rows that hold at a time, or at present, each behind its tuple ID and its time.

        Versions that ended before HISTORY are lost.
        """
        open_versions = [version for version in self.versions() if version.holds(at)]
        edge = self.edge(clock)
        return [(v.tuple_id, v.time, *v.row) for v in open_versions if at is None or v.end >= edge]

    def edge(self, clock: int) -> int:
        """The time before which HISTORY ends."""
        now, options = self.stream.now(clock), self.options[-1]
        return BEGINNING if now is None else max(now - options.history, options.exact_from)


def _resolved(row: Sequence[Value], before: Sequence[Value]) -> list[Value]:
    """A patch with the values of the version before it, which may have columns that were added later."""
    values = [*row, *([KEPT] * (len(before) - len(row)))]
    earlier = [*before, *([None] * len(values))]
    return [old if value is KEPT else value for value, old in zip(values, earlier, strict=False)]


def _ended(version: Version, time: int) -> Version:
    return Version(version.tuple_id, version.time, version.begin, time, version.row)


def entry(spec: StreamSpec, deletes: bool | None, row: Sequence[Value], patches: bool = False) -> tuple[Value, ...]:
    """The entry of a pushed row, as the table keeps it: a deletion has its key and its time only.

    `row`: has KEPT for columns that the batch lacks. They are NULL unless the row `patches` a version.
    """
    table = spec.table
    assert table is not None
    key_and_time = {*table.key, spec.time_attribute}
    values = [value if not deletes or place + 2 in key_and_time else None for place, value in enumerate(row)]
    if patches and not deletes:
        return (PATCHES, *values)
    return (bool(deletes), *(None if value is KEPT else value for value in values))
