"""Sizes that shape the engine; constructor arguments, so that a test can use a chunk of 64 tuples."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from math import gcd

from psoup.errors import InvalidInput
from psoup.model import SECOND
from psoup.reading import NO_LIMIT

CHUNK_ROWS = 65_536
"""The most tuples of a chunk, and its default: an offset in it has 16 bits."""
_WORD = 64
_JOIN_PAIRS = _JOIN_BYTES = 256 * 1024**2

COLUMNAR_QUERIES = 256
"""Queries of a block from which on they go by columns (`psoup.sql.templates.ladder`), also in logs that do not say."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """Memory of producers and of removals: admission's, and the log's, which forgets nothing that admission needs."""

    acknowledgements: int = 1_024
    """Batches of each producer that are remembered, so that its retries are recognised."""

    idle: int = 7 * 86_400 * SECOND
    """Microseconds after which a silent producer is forgotten."""

    removals: int = 256
    """Removals of many queries that are remembered for each tenant, so that a retry gets the first answer."""


REMEMBERED = Remembered()


@dataclass(frozen=True, slots=True)
class TextLimits:
    """Limits of the texts that expressions make.

    `value`: UTF-8 bytes of a text; a longer result is an error of its row. `together`: bytes of all that one expression
    makes on its way over some rows; beyond that it is evaluated over fewer rows at a time. `parts`: into how many parts
    rows may be cut for that, at most; None: as many as it takes. `several`: the same as `together`, for more than one
    row; None: `together`.
    """

    value: int = 1024 * 1024
    together: int = 64 * 1024 * 1024
    parts: int | None = None
    several: int | None = None

    def of(self, rows: int) -> int:
        """Return the bytes that the texts of so many rows may take together. O(1)."""
        return self.together if self.several is None or rows < 2 else self.several

    def in_pieces(self, most: int) -> TextLimits:
        """Return limits under which a piece of several rows has at most `most` bytes of texts; one row is as before."""
        return _in_pieces(self, most)


@lru_cache
def _in_pieces(limits: TextLimits, most: int) -> TextLimits:
    """Made once for each pair: every sort and every GROUP BY asks."""
    return replace(limits, several=max(min(most, limits.together), 1))


@lru_cache
def _texts(value: int, together: int) -> TextLimits:
    """Made once for each pair of sizes: every invocation asks."""
    return TextLimits(value, together)


@dataclass(frozen=True, slots=True)
class JoinLimits:
    """Bounds of one join, and the sizes of its pieces. Each is at least 1."""

    pairs: int = _JOIN_PAIRS
    """Candidates that may be looked at: pairs of partial tuples and rows that one factor lets meet."""

    bytes: int = _JOIN_BYTES
    """Bytes that keys, sorted sides and tuples not yet given out may take."""

    rows: int = 65_536
    """Tuples of the join that are given out at once at most."""

    first: int = 1_024
    """Tuples that are given out at first at most, and rows of the first source that are joined at first: the first
    rows of an answer do not wait for many. Both grow."""

    piece: int = 8_192
    """Partial tuples that take a step together."""

    kept: int = 1_048_576
    """Tuples of the join that may be kept to be sorted, if steps were not taken in the order of FROM."""


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """Bounds of the groups of one answer. Each is at least 1."""

    keys: int = 4_194_304
    """Groups, and different values of one key or of a DISTINCT aggregate, that may be told apart."""

    rows: int = 1_048_576
    """Groups that one answer may show."""


@lru_cache
def _joins(pairs: int, held: int) -> JoinLimits:
    """Made once for each pair of sizes: every invocation asks."""
    return JoinLimits(pairs, held)


@lru_cache
def _groups(keys: int, rows: int) -> GroupLimits:
    """Made once for each pair of sizes: every invocation asks."""
    return GroupLimits(keys, rows)


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of the engine's structures, not set in production. Tests shrink them, to meet many pages and packs.

    Each is at least 1.
    """

    page: int = 512
    """Records in a page of the published maps (`psoup.published.paged`); a page is copied for a change."""

    owner_page: int = 4_096
    """Queries in a page of admission's map from queries to streams."""

    few_members: int = 64
    """Queries of a clause that are kept as a tuple; more become a map in pages."""

    most_packs: int = 4
    """Packs of a chunk's results; when there are more, they become one."""

    tier: int = 16
    """Runs of like size that are merged at once. Merging two by two cost more than the join itself."""

    large_run: int = 4_096
    """Pairs of a run from which on twice as many are kept side by side: shards make two or more of a piece, and all
    runs of a chunk are merged at once by the task that seals it."""

    merge_ratio: int = 8
    """A part of the predicate index takes part in a merge when it is at most this many times larger than the later
    parts together."""

    most_parts: int = 4
    """Frozen parts of the index before the delta is allowed to grow instead: each costs a pass over the tuples."""

    waiting_runs: int = 32
    """Pushes in a reorder buffer after which the latest are joined."""

    join_ratio: int = 4
    """A run of waiting tuples is joined with the later ones if it is at most this many times as long as they are."""

    compact_from: int = 64
    """Clauses that must have gone since a chunk was last compacted; an eighth of the live ones, if these are many."""

    tidy_from: int = 64
    """Dead slots that are worth rebuilding the open results for, if they are also more than the live clauses."""

    key_probes: int = 8
    """Searches of a column of a closed chunk after which it has a key index, which costs as much as 20 of them; one of
    texts counts as four."""

    keys_at_once: int = 16
    """Key indexes that one invocation makes at most: some 10 ms."""

    key_values: int = 32
    """Different values among 512 rows of a column from which on it has a key index. Of a column of few rows half as
    many values as rows are enough."""

    key_share: int = 128
    """Divisor of the rows of a chunk: at most so many rows, and at least 16, are looked up by keys."""

    cut_rows: int = 32_768
    """Rows of a side of a join from which on it is cut down by look-ups."""

    cut_ratio: int = 64
    """Rows of that side for each row of the side that it is looked up by, at least."""

    cut_worth: int = 4
    """Divisor of the rows of a side: look-ups that leave more rows are not worth their time."""

    fold_fan: int = 16
    """Folds of chunks that make one of a wider span; 1: aggregates are always folded tuple by tuple."""

    open_work: int = 32_000_000
    """Nanoseconds, estimated by counts (`psoup.matching.old_work`), that the new clauses of an event may take over open
    chunks while all tenants wait: before it is more a chunk is closed, and maintenance covers it."""

    cover_at_once: int = 8_192
    """Clauses covered by one task: a row of bits for each, 64 MiB, is the most it holds for a chunk."""

    cover_pairs: int = 32_768
    """Pairs of a clause and a chunk in one task: some tenths of a second, for which other maintenance waits."""

    def __post_init__(self) -> None:
        """Raise InvalidInput for a size below 1."""
        wrong = [f"{size.name} is {getattr(self, size.name)}" for size in fields(self) if getattr(self, size.name) < 1]
        if wrong:
            raise InvalidInput(f"{', '.join(wrong)}; each size is at least 1")


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Settings of the engine, read once, when it is made."""

    chunk_rows: int = CHUNK_ROWS
    """Tuples in a chunk; a multiple of 64, at most 65,536 (offsets are uint16)."""

    unstored_chunks: int = 0
    """Closed chunks of a stream that wait in the log before they are stored, where retention passes them soon: what it
    has passed is never stored. 0: all are stored at once."""

    unstored_bytes: int = 16 * 1024 * 1024
    """The most bytes of tuples that wait so in each stream; a start replays them."""

    chunk_text_bytes: int = 64 * 1024 * 1024
    """Bytes of variable-length data after which a chunk is closed early."""

    piece_rows: int = 8_192
    """Tuples evaluated together at most."""

    block_rows: int = 4_096
    """Tuples of an open chunk whose bits lie side by side, query after query: a power of two, at least 64. A piece that
    lies in one such block is written to the fewest pages of memory."""

    list_limit: int = 1_024
    """Most matches of a sealed column that are kept as a list of offsets; more become a bitmap."""

    dense_share: int = 64
    """A query is emitted as a bitmap when its most selective factor passes more than 1 in this many tuples."""

    sparse_floor: int = 8
    """Tuples of a piece that are looked at one by one whatever their share: a bitmap row for so few is a waste."""

    generous_rows: int = 8_192
    """Bitmap rows of an open chunk up to which an eighth of `dense_share` is enough for a row (8 KiB each): faster."""

    delta_queries: int = 1_024
    """Recent queries that the second predicate index may hold before maintenance merges it into the first."""

    memory_bytes: int = 4 * 1024**3
    """Budget for tuples, queries and results. A push or a registration that would exceed it is refused (0: every one);
    results take what is left, an eighth at least, and are evicted beyond that."""

    results_bytes: int = 4 * 1024**3
    """Most that results take of it; the rest is evicted to uncovered, oldest first, and evaluated when asked for. Key
    indexes take what results leave of it, and go first."""

    sort_rows: int = 5_000_000
    """Rows that ORDER BY or DISTINCT may hold in one invocation."""

    group_keys: int = 4_194_304
    """Groups that one invocation may tell apart; see `groups`."""

    group_rows: int = 1_048_576
    """Groups that one answer may show; see `groups`."""

    join_pairs: int = _JOIN_PAIRS
    """Candidates that one invocation of a join may look at; see `joins`."""

    join_bytes: int = _JOIN_BYTES
    """Bytes that one invocation of a join may hold; see `joins`."""

    archive_rows: int = NO_LIMIT
    """Tuples on disk that one invocation may evaluate because nothing has evaluated them for its query yet. A service
    bounds the time instead, as it has a clock (`ReadBudget.archive`)."""

    ahead: int = 300 * SECOND
    """Microseconds that an event time may lie past the clock in streams that are created without AHEAD from now on;
    tuples further ahead are refused one by one."""

    max_ahead: int = 86_400 * SECOND
    """The most that AHEAD may be in any stream; it also holds for streams that are older than AHEAD."""

    kept_acknowledgements: int = REMEMBERED.acknowledgements
    """Acknowledgements remembered for each producer; see `remembered`."""

    kept_requests: int = 65_536
    """Request IDs of registrations remembered for each tenant."""

    kept_removals: int = REMEMBERED.removals
    """Request IDs of calls that unregistered many queries, remembered for each tenant; see `remembered`."""

    block_queries: int = 131_072
    """Queries that one call may register."""

    block_bytes: int = 64 * 1024**2
    """Bytes of statements and values that one call may register."""

    columnar_queries: int = COLUMNAR_QUERIES
    """Queries of a block by template from which on they are kept as columns: fewer are not worth a part of an index."""

    producer_idle: int = REMEMBERED.idle
    """Microseconds after which a silent producer is forgotten; see `remembered`."""

    batch_rows: int = 1_048_576
    """Tuples that one push may have."""

    batch_bytes: int = 2 * 1024**3
    """Bytes that the rows of one push, or of a batch in parts, may take in the columns of their stream."""

    staged_rows: int = 16_777_216
    """Tuples that one batch that comes in parts may have."""

    text_bytes: int = 1024 * 1024
    """UTF-8 bytes that one TEXT value may have, be it pushed or computed."""

    evaluation_bytes: int = 64 * 1024 * 1024
    """Bytes of TEXT that one expression may make over a piece of a stream; beyond that the piece is cut."""

    streams: int = 10_000
    """Streams of one tenant."""

    producers: int = 65_536
    """Producers remembered for each stream; for a new one beyond that the longest silent one is forgotten."""

    producer_rest: int = 60 * SECOND
    """Microseconds that a producer must have been silent to be forgotten for a new one."""

    shape: Shape = field(default=Shape(), repr=False)
    """Sizes of structures inside."""

    @property
    def block_words(self) -> int:
        """Words of bits in a block: fewer than of `block_rows` if a chunk is not a multiple of that."""
        return gcd(self.chunk_rows, self.block_rows) // _WORD

    @property
    def texts(self) -> TextLimits:
        """The limits that the evaluation of expressions must know."""
        return _texts(self.text_bytes, self.evaluation_bytes)

    @property
    def groups(self) -> GroupLimits:
        """The bounds of the groups of one answer."""
        return _groups(self.group_keys, self.group_rows)

    @property
    def joins(self) -> JoinLimits:
        """The bounds of one join."""
        return _joins(self.join_pairs, self.join_bytes)

    @property
    def remembered(self) -> Remembered:
        """The memory of producers and of removals: for the store as well."""
        return Remembered(self.kept_acknowledgements, self.producer_idle, self.kept_removals)

    def __post_init__(self) -> None:
        """Raise InvalidInput for a chunk that offsets or words of bits do not fit: kernels would write past arrays."""
        if not 0 < self.chunk_rows <= CHUNK_ROWS or self.chunk_rows % 64:
            raise InvalidInput(
                f"chunk_rows is {self.chunk_rows}; it must be a multiple of 64, from 64 to {CHUNK_ROWS:,}"
            )
        if self.block_rows < _WORD or self.block_rows & (self.block_rows - 1):
            raise InvalidInput(f"block_rows is {self.block_rows}; it must be a power of two, at least {_WORD}")
        if self.piece_rows < 1:
            raise InvalidInput(f"piece_rows is {self.piece_rows}; a piece has at least one tuple")
