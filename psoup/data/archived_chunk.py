"""Archived chunks: tuples on disk, with one small entry in memory.

    ArchivedChunk  number, IDs, first and last time, zones       some hundred bytes for any content
        └─ Source  columns, read when a reader asks for them     a port: the store reads, caches, and deletes

Readers read `Chunk`s, archived or in memory (`psoup.data.chunk`). Both give the same columns. This module does no I/O,
but a thread that reads a column may wait for a disk. So the writer and the event loop never read one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, overload

from psoup.data.chunk_caches import ChunkCaches, Zone
from psoup.data.chunk_versions import ChunkVersions
from psoup.data.places import Places
from psoup.data.sidecars import ChunkFile, Sidecars
from psoup.expressions.tree import ID_INDEX, TIME_INDEX
from psoup.model import TIME_COLUMN, TIMESTAMP, Attribute, StreamSpec
from psoup.values.columns import Array, Column

TIME = Attribute(TIME_COLUMN, TIMESTAMP, nullable=False)
"""The attribute under which a source stores the physical IDs of a stream in system time."""


ENTRY_BYTES = 2_000
"""The approximate bytes of an archived chunk in memory: its entry, with the zones of some attributes."""


class ChunkSource(ChunkFile, Protocol):
    """The stored columns of one chunk. Any thread may read them.

    A read raises the errors of the medium, and Internal if the data is damaged.
    """

    @property
    def sidecars(self) -> Sidecars | None:
        """The sidecars of the store's chunks. None if the store has no sidecars."""
        ...

    def column(self, attribute: Attribute) -> Column:
        """The values of `attribute` in all rows. They are NULL if the chunk is older than the attribute."""
        ...

    def within(self, attribute: Attribute, low: int, last: int) -> Array | None:
        """The rows (int64, ascending) whose order keys are in [low, last].

        Returns None if the source cannot search the attribute. Then the caller must read `column`.
        """
        ...

    def take(self, attributes: Sequence[Attribute], rows: Array) -> list[Column]:
        """The values at positions `rows` (int64[k], ascending). For few rows, this is cheaper than `column`."""
        ...

    def evaluated(self) -> Array:
        """The ID ranges (int64[r, 2]) of the queries whose matches are stored with the chunk. May wait for the disk."""
        ...

    def matches(self, query_id: int) -> tuple[Array, int] | None:
        """The stored matches of a query of `evaluated`: offsets (int64, ascending), and the number of its failures.

        Returns None if the store has lost them.
        """
        ...

    def expect(self, columns: Sequence[tuple[Attribute, int]], rows: Array | None) -> None:
        """Announce that a reader needs columns soon, so that the source can read ahead. Does not wait.

        `columns`: each attribute with its place in the file. `rows`: the positions; None for all rows.
        """
        ...


class Chunk(Protocol):
    """Tuples of one stream with times that never decrease. The IDs of all places are first_id to end_id - 1."""

    @property
    def number(self) -> int:
        """The place of the chunk among the stream's chunks."""
        ...

    @property
    def places(self) -> Places:
        """The tuple IDs of the rows."""
        ...

    @property
    def first_id(self) -> int:
        """The tuple ID of the first place."""
        ...

    @property
    def end_id(self) -> int:
        """The tuple ID after the last place."""
        ...

    @property
    def first_time(self) -> int:
        """The least physical ID, also of tuples that have left; there must be a place."""
        ...

    @property
    def last_time(self) -> int:
        """The greatest physical ID, also of tuples that have left; there must be a place."""
        ...

    @property
    def times(self) -> Array:
        """The physical IDs, int64[n]."""
        ...

    @property
    def columns(self) -> Sequence[Column]:
        """The columns in the order of the schema."""
        ...

    @property
    def nbytes(self) -> int:
        """The bytes that the memory budget charges for the tuples."""
        ...

    @property
    def caches(self) -> ChunkCaches:
        """Statistics and encodings that readers have computed from the columns."""
        ...

    @property
    def in_memory(self) -> bool:
        """Whether columns are in memory."""
        ...

    @property
    def versions(self) -> ChunkVersions | None:
        """The successors and ends of the rows. None in a stream."""
        ...

    def __len__(self) -> int: ...

    def ids_of(self, start: int, stop: int) -> Array:
        """The tuple IDs of rows start to stop, int64."""
        ...

    def take(self, index: int, rows: Array) -> Column:
        """A column, by its place in the schema or TIME_INDEX, at positions `rows` (int64[k], ascending)."""
        ...


@dataclass(frozen=True, slots=True)
class ArchivedChunk:
    """A chunk on disk. `zones`: by schema position. An attribute without a zone may have any values."""

    spec: StreamSpec
    number: int
    places: Places
    first_time: int
    last_time: int
    zones: Mapping[int, Zone]
    source: ChunkSource = field(compare=False, repr=False)
    caches: ChunkCaches = field(default_factory=ChunkCaches, compare=False, repr=False)
    """Indexes that readers have computed from the columns. No other part of the chunk changes."""
    first_id: int = field(init=False)
    """The tuple ID of the first place. Stored, because windows compare it with each chunk; so is `end_id`."""
    end_id: int = field(init=False)
    """The tuple ID after the last place."""

    in_memory = False
    nbytes = 0
    versions = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "first_id", self.places.first_id)
        object.__setattr__(self, "end_id", self.places.end_id)

    def __len__(self) -> int:
        return len(self.places)

    @property
    def times(self) -> Array:
        """The physical IDs, int64[n]. May wait for the disk."""
        return self.source.column(self.attribute(TIME_INDEX)).values

    @property
    def columns(self) -> LazyColumns:
        """The columns, each read on access."""
        return LazyColumns(self, 0, len(self))

    def ids_of(self, start: int, stop: int) -> Array:
        """The tuple IDs of rows start to stop, int64."""
        return self.places.ids_between(start, stop)

    def take(self, index: int, rows: Array) -> Column:
        """A column at positions `rows` (int64[k], ascending). Reads as little of the file as possible."""
        return self.source.take([self.attribute(index)], rows)[0]

    def take_all(self, indices: Iterable[int], rows: Array) -> dict[int, Column]:
        """Several columns at positions `rows` (int64[k], ascending), in one read of the source."""
        wanted = list(indices)
        return dict(zip(wanted, self.source.take([self.attribute(i) for i in wanted], rows), strict=True))

    def expect(self, indices: Iterable[int], rows: Array | None = None) -> None:
        """Announce that a reader needs columns soon. `indices`: places in the schema, or TIME_INDEX. Does not wait."""
        position = self.spec.time_attribute
        last = -1 if position is None else position
        wanted = [(self.attribute(i), last if i == TIME_INDEX else i) for i in indices if i != ID_INDEX]
        self.source.expect(wanted, rows)

    def attribute(self, index: int) -> Attribute:
        """The attribute under which the source stores a column. `index`: its place in the schema, or TIME_INDEX."""
        attributes = self.spec.schema.attributes
        if index != TIME_INDEX:
            return attributes[index]
        return TIME if self.spec.time_attribute is None else attributes[self.spec.time_attribute]


class LazyColumns(Sequence[Column]):
    """Rows start to stop of an archived chunk, column by column."""

    def __init__(self, chunk: ArchivedChunk, start: int, stop: int) -> None:
        self._chunk = chunk
        self._range = (start, stop)

    @overload
    def __getitem__(self, index: int) -> Column: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Column]: ...

    def __getitem__(self, index: int | slice) -> Column | Sequence[Column]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        column = self._chunk.source.column(self._chunk.attribute(index))
        return column if self._range == (0, len(self._chunk)) else column.slice(*self._range)

    def __iter__(self) -> Iterator[Column]:
        return (self[i] for i in range(len(self)))

    def __len__(self) -> int:
        return len(self._chunk.spec.schema.attributes)
