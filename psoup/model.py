"""The concepts that all layers share: types, schemas, streams, windows. Plain frozen dataclasses.

Every value has an *engine form*. BOOLEAN is bool, BIGINT int, DOUBLE float, and TEXT str. DECIMAL(p,s) is the scaled
int, also for sums of up to 38 digits. TIMESTAMP is the microseconds, and DATE the days, since 1970 UTC. Every value
also has an *order key* (see `psoup.values.kinds`), which is int64, or UTF-8 bytes for TEXT. All comparisons in the
engine compare keys.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from psoup.derivation import Derivation
from psoup.errors import InvalidBatch


def positions(schema: Schema, names: Sequence[str]) -> dict[str, int]:
    """Map each attribute's name, in lower case, to the position of its column in a batch.

    `names`: the names of the batch's columns, in any case. The map lacks nullable attributes that the batch does not
    have. Raises InvalidBatch for a repeated name, a name that the schema lacks, and a missing attribute that is NOT
    NULL. O(columns): called before the values are decoded.
    """
    by_name: dict[str, int] = {}
    for position, name in enumerate(names):
        if name.lower() in by_name:
            raise InvalidBatch(f"column {name!r} comes twice in the batch; send it once", column=name)
        by_name[name.lower()] = position
    places: dict[str, int] = {}
    if PATCH in by_name and schema.takes_patches:
        places[FIRST_VERSION.name] = by_name.pop(PATCH)
    for attribute in schema.attributes:
        name = attribute.name.lower()
        if name in by_name and attribute != FIRST_VERSION:
            places[name] = by_name.pop(name)
        elif not attribute.nullable:
            raise InvalidBatch(f"column {attribute.name!r} is missing and is NOT NULL", column=attribute.name)
    if by_name:
        extra = ", ".join(repr(names[p]) for p in by_name.values())
        names = ", ".join(schema.names)
        raise InvalidBatch(f"the {schema.noun} has no column {extra}; its columns are {names}", column=extra)
    return places


SECOND = 1_000_000
"""Microseconds in a second. Times are int64 microseconds since 1970 UTC."""

DEFAULT_AHEAD = 300 * SECOND
"""The AHEAD of a stream that states none, in microseconds. Tuples further ahead of the clock are refused one by one."""

DAY = 86_400 * SECOND
DEFAULT_HISTORY = 7 * DAY
"""The HISTORY of a table that states none, in microseconds."""
NO_EDGE = -(2**63)
"""The time before which a table has lost nothing."""
DEFAULT_DELETED_FOR = 30 * DAY
"""The DELETED FOR of a table that states none, in microseconds."""

EXACT_DOUBLE = 2**53
"""DOUBLE represents every integer from minus this number to this number exactly."""

EPOCH = datetime(1970, 1, 1)
"""The moment, in UTC, from which times and dates count."""

DEFAULT_TENANT = "default"
MAX_DECIMAL_PRECISION = 18
MAX_WIDE_PRECISION = 38
ID_COLUMN = "_id"
TIME_COLUMN = "_time"
RESERVED_NAMES = frozenset({ID_COLUMN, TIME_COLUMN})


class Kind(enum.Enum):
    """The seven kinds of value in streams, and WIDE: DECIMALs of up to 38 digits, the kind of sums."""

    BOOLEAN = "BOOLEAN"
    BIGINT = "BIGINT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    TEXT = "TEXT"
    TIMESTAMP = "TIMESTAMP"
    DATE = "DATE"
    WIDE = "DECIMAL of up to 38 digits"

    __hash__ = object.__hash__  # members are single objects; Enum's own hash is a slow Python call on a hot path


@dataclass(frozen=True, slots=True)
class DataType:
    """A kind, and for DECIMAL its precision (1 to 18, for WIDE up to 38) and scale (0 to precision).

    `beside`: bytes that the memory budget charges for each value in addition, for structures beside the column.
    """

    kind: Kind
    precision: int = 0
    scale: int = 0
    beside: int = 0

    def __str__(self) -> str:
        if self.kind in (Kind.DECIMAL, Kind.WIDE):
            return f"DECIMAL({self.precision},{self.scale})"
        return self.kind.value


BOOLEAN = DataType(Kind.BOOLEAN)
BIGINT = DataType(Kind.BIGINT)
DOUBLE = DataType(Kind.DOUBLE)
TEXT = DataType(Kind.TEXT)
TIMESTAMP = DataType(Kind.TIMESTAMP)
DATE = DataType(Kind.DATE)


def decimal(precision: int, scale: int) -> DataType:
    """DECIMAL(precision, scale), which is wide from 19 digits on."""
    return DataType(Kind.DECIMAL if precision <= MAX_DECIMAL_PRECISION else Kind.WIDE, precision, scale)


def wide(scale: int) -> DataType:
    """DECIMAL(38, scale): the type of a sum."""
    return DataType(Kind.WIDE, MAX_WIDE_PRECISION, scale)


STREAMED = tuple(kind for kind in Kind if kind is not Kind.WIDE)
"""The kinds of columns of streams."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """A named, typed column of a stream. `hidden`: no statement can name it, and `*` leaves it out."""

    name: str
    type: DataType
    nullable: bool = True
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Schema:
    """The attributes of a stream in declaration order. Their names are unique in any case."""

    attributes: tuple[Attribute, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the attributes that are not hidden, in order."""
        return tuple(attribute.name for attribute in self.attributes if not attribute.hidden)

    @property
    def shown(self) -> tuple[Attribute, ...]:
        """The attributes that are not hidden, in order."""
        return tuple(attribute for attribute in self.attributes if not attribute.hidden)

    @property
    def noun(self) -> str:
        """`table` or `stream`, for messages. Only tables have hidden attributes."""
        return "table" if any(attribute.hidden for attribute in self.attributes[:1]) else "stream"

    def pushed_index(self, name: str) -> int | None:
        """The position of a column that rows of a push may have: as `index`, and also `_deleted`, `_patch` of a table.

        The column `_patch` has the position of `_first` (`PATCH`).
        """
        if name.lower() == DELETION.name and self.noun == "table":
            return DELETED_AT
        if name.lower() == PATCH and self.takes_patches:
            return FIRST_AT
        return self.index(name)

    @property
    def takes_patches(self) -> bool:
        """Whether rows of a push may have `_patch`. A stream has no patches, nor a table with a column of that name."""
        return self.noun == "table" and self.index(PATCH) is None

    def index(self, name: str) -> int | None:
        """The position of `name` (any case), or None. Hidden attributes have no name for callers."""
        folded = name.lower()
        for position, attribute in enumerate(self.attributes):
            if attribute.name.lower() == folded and not attribute.hidden:
                return position
        return None


ENTRY_BYTES = 110
"""Bytes charged for each entry of a table beside its columns.

The links to the entries before and after it take 24 bytes. A place in the hash table of keys takes 32 bytes, and 40 to
70 places in 100 are free.
"""
DELETION = Attribute("_deleted", DataType(Kind.BOOLEAN, beside=ENTRY_BYTES), hidden=True)
"""The first column of a table's tuples: whether the tuple is the entry of a deletion. NULL is false."""
FIRST_VERSION = Attribute("_first", BOOLEAN, hidden=True)
"""The second column of a table's tuples: whether the tuple is the first version of its key. The engine writes it.

Until a tuple is released, the column says whether the row is a patch.
"""
PATCH = "_patch"
"""The column of a push that says whether a row is a patch: it keeps the values of the columns that the batch lacks."""
TABLE_COLUMNS = (DELETION, FIRST_VERSION)
"""The hidden columns of each table, before its own. ALTER TABLE adds columns at the end."""
DELETED_AT, FIRST_AT = range(len(TABLE_COLUMNS))


@dataclass(frozen=True, slots=True)
class TableSpec:
    """The part of a table's definition that streams do not have. Times are microseconds.

    `key`: the positions of the primary key. `required`: the positions of the other columns with NOT NULL. The schema
    calls them nullable, as the entry of a deletion has only its key. `history`: how long an ended version is kept.
    `deleted_for`: how long a deletion is remembered. `expires`: the position of the column of EXPIRES BY, or None.
    `first_from_arrival`: whether the first version of a key holds from its time, not from the beginning. So it is by
    default with TIMESTAMP BY. `exact_from`, `forgotten_before`: times before which versions and deletions are lost in
    any case. ALTER TABLE has made HISTORY or DELETED FOR longer, and they may have left before. `timed`: the position
    of the column of TIMESTAMP BY, which says when a version holds.
    """

    key: tuple[int, ...]
    required: tuple[int, ...] = ()
    history: int = DEFAULT_HISTORY
    deleted_for: int = DEFAULT_DELETED_FOR
    expires: int | None = None
    first_from_arrival: bool = False
    exact_from: int = NO_EDGE
    forgotten_before: int = NO_EDGE
    timed: int | None = None

    def after(self, before: TableSpec, now: int | None) -> TableSpec:
        """The options after a change at NOW of the table. What the options `before` had lost by then stays lost."""
        if now is None:
            return self
        exact = now - before.history if self.history > before.history else NO_EDGE
        forgotten = now - before.remembered if self.remembered > before.remembered else NO_EDGE
        return replace(
            self,
            exact_from=max(before.exact_from, exact),
            forgotten_before=max(before.forgotten_before, forgotten),
        )

    def history_edge(self, now: int) -> int:
        """The earliest time about which answers are exact. `now`: NOW of the table."""
        return max(now - self.history, self.exact_from)

    @property
    def remembered(self) -> int:
        """The microseconds after which a deleted key counts as new: DELETED FOR, but at least HISTORY.

        So the versions before the deletion are lost when the next first version comes. No two hold at one time.
        """
        return max(self.deleted_for, self.history)


@dataclass(frozen=True, slots=True)
class Retention:
    """The part of a stream that PSoup keeps: the last `duration` microseconds or the last `rows`, or everything if both
    are None.

    `archive`: the length of the oldest piece of that part, in the same unit. This piece is on disk, the rest is in
    memory.
    """

    duration: int | None = None
    rows: int | None = None
    archive: int = 0


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """The definition of a stream or a table, as in its CREATE statement.

    `table`: None for a stream. `time_attribute` is None in the system time domain. `ahead`: the most microseconds by
    which a tuple's time may be ahead of the clock. It is None for a stream that was created before AHEAD existed.
    `ahead_stated`: False if `ahead` is the service's default, and not in the statement. `by_clock`: whether the
    watermark follows the clock, too (WATERMARK BY CLOCK).
    """

    name: str
    schema: Schema
    time_attribute: int | None = None
    lateness: int = 0
    idle_after: int | None = None
    retention: Retention = Retention()
    ahead: int | None = None
    ahead_stated: bool = True
    by_clock: bool = False
    table: TableSpec | None = None
    derived: Derivation | None = None
    """Of a derived stream: the SELECT that makes its rows. Its time attribute is hidden."""

    @property
    def select(self) -> str:
        """The SELECT of a derived stream. Empty for other streams."""
        return "" if self.derived is None else self.derived.select

    @property
    def noun(self) -> str:
        """`table` or `stream`, for messages."""
        return "stream" if self.table is None else "table"

    @property
    def declared(self) -> tuple[Attribute, ...]:
        """The columns as the statement declares them, without hidden ones."""
        required = () if self.table is None else (*self.table.required, *self.table.key)
        every = enumerate(self.schema.attributes)
        return tuple(
            replace(attribute, nullable=False) if place in required else attribute
            for place, attribute in every
            if not attribute.hidden
        )

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The names of the columns of a table's primary key. Empty for a stream."""
        return () if self.table is None else tuple(self.schema.attributes[place].name for place in self.table.key)

    @property
    def expires_by(self) -> str:
        """The name of the column of EXPIRES BY. Empty without it."""
        place = None if self.table is None else self.table.expires
        return "" if place is None else self.schema.attributes[place].name

    def with_columns(self, added: tuple[Attribute, ...]) -> StreamSpec:
        """A copy of the definition with `added` columns at the end."""
        return replace(self, schema=Schema((*self.schema.attributes, *added)))

    @property
    def event_time(self) -> bool:
        """Whether each tuple has its time in an attribute."""
        return self.time_attribute is not None

    @property
    def clock_bound(self) -> bool:
        """Whether a tuple's time moves the watermark at most to the clock less LATENESS.

        So a sender with a fast clock makes no tuple of another sender late. A stream that states AHEAD has tuples of
        the future. Its watermark follows them, unless it is by the clock.
        """
        return self.by_clock or not self.ahead_stated


class Anchor(enum.Enum):
    """The point from which a window bound counts."""

    START = "START"
    NOW = "NOW"
    ABSOLUTE = "ABSOLUTE"


@dataclass(frozen=True, slots=True)
class Bound:
    """An end of a window. `anchor` says which of the other fields applies.

    START has no field. NOW counts back by `offset` microseconds, or by `rows` tuples. ABSOLUTE is the time `at` in
    microseconds. `written`: the offset as the statement has it, for people. Bounds that differ in it are equal.
    """

    anchor: Anchor
    offset: int = 0
    rows: int | None = None
    at: int = 0
    written: str = field(default="", compare=False)


START = Bound(Anchor.START)
NOW = Bound(Anchor.NOW)


@dataclass(frozen=True, slots=True)
class WindowClause:
    """BEGIN and END: either a closed interval of physical IDs, or the last n tuples without the last m tuples."""

    begin: Bound = START
    end: Bound = NOW

    @property
    def kind(self) -> str:
        """`snapshot`, `landmark` or `sliding` (PSoup, section 1.1)."""
        if self.begin.anchor is Anchor.NOW:
            return "sliding"
        return "landmark" if self.end.anchor is Anchor.NOW else "snapshot"

    @property
    def by_rows(self) -> bool:
        """Whether a bound counts tuples instead of time."""
        return self.begin.rows is not None or self.end.rows is not None


def time_text(time: int) -> str:
    """A time, in microseconds since 1970, as ISO text in UTC. Outside the years 1 to 9999, the number of
    microseconds."""
    try:
        return (EPOCH + timedelta(microseconds=time)).isoformat(sep=" ") + "Z"
    except OverflowError:
        return f"{time} microseconds"
