"""The sizes and limits of the engine. They are constructor arguments, so that a test can have chunks of 64 tuples."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from math import gcd

from psoup.errors import InvalidInput
from psoup.model import SECOND
from psoup.work.read_budget import NO_LIMIT

CHUNK_ROWS = 65_536
"""The most tuples of a chunk, and the default: an offset in a chunk has 16 bits."""
_WORD = 64
_JOIN_PAIRS = 256 * 1024**2
_JOIN_BYTES = 256 * 1024**2

COLUMNAR_QUERIES = 256
"""The least number of queries of a block to bind by columns (`psoup.sql.templates.ladder`), also for logs without the
way."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """The memory of producers and of removals. Admission and the log share it, so the log keeps all that admission
    needs."""

    acknowledgements: int = 1_024
    """The most batches of each producer that are remembered, so that its retries are recognised."""

    idle: int = 7 * 86_400 * SECOND
    """Microseconds after which a silent producer is forgotten."""

    removals: int = 256
    """The most removals of many queries that are remembered for each tenant, so that a retry gets the first answer."""


REMEMBERED = Remembered()


@dataclass(frozen=True, slots=True)
class TextLimits:
    """Limits of the texts that expressions make.

    `value`: UTF-8 bytes of one text; a longer result is an error of its row. `together`: bytes of all texts that one
    expression makes over some rows, with intermediate results. Above it fewer rows are evaluated at a time. `parts`:
    the most parts into which rows may be cut for that, None: any number. `several`: `together` for more than one row;
    None: the same limit.
    """

    value: int = 1024 * 1024
    together: int = 64 * 1024 * 1024
    parts: int | None = None
    several: int | None = None

    def of(self, rows: int) -> int:
        """The limit for all texts of `rows` rows together, in bytes. O(1)."""
        return self.together if self.several is None or rows < 2 else self.several

    def in_pieces(self, most: int) -> TextLimits:
        """Limits with at most `most` bytes of texts for a piece of several rows. The limits of one row stay the
        same."""
        return _in_pieces(self, most)


@lru_cache
def _in_pieces(limits: TextLimits, most: int) -> TextLimits:
    """Cached for each pair of arguments, because every sort and every GROUP BY calls this."""
    return replace(limits, several=max(min(most, limits.together), 1))


@lru_cache
def _texts(value: int, together: int) -> TextLimits:
    """Cached for each pair of sizes, because every invocation calls this."""
    return TextLimits(value, together)


@dataclass(frozen=True, slots=True)
class JoinLimits:
    """The limits of one join, and the sizes of its pieces. Each is at least 1."""

    pairs: int = _JOIN_PAIRS
    """The most candidates that are compared: pairs of a partial tuple and a row that satisfy one factor."""

    bytes: int = _JOIN_BYTES
    """The most bytes of keys, sorted sides and tuples that are not yet returned."""

    rows: int = 65_536
    """The most tuples of the join that are returned at once."""

    first: int = 1_024
    """The most tuples that are returned at first, and the rows of the first source that are joined at first: so the
    first rows of an answer are early. Both numbers grow."""

    piece: int = 8_192
    """The number of partial tuples that take a step together."""

    kept: int = 1_048_576
    """The most tuples of the join that are kept for sorting, where steps had another order than FROM."""


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """The limits of the groups of one answer. Each is at least 1."""

    keys: int = 4_194_304
    """The most groups, and the most different values of one key or of a DISTINCT aggregate."""

    rows: int = 1_048_576
    """The most groups in one answer."""


@lru_cache
def _joins(pairs: int, bytes_limit: int) -> JoinLimits:
    """Cached for each pair of sizes, because every invocation calls this."""
    return JoinLimits(pairs, bytes_limit)


@lru_cache
def _groups(keys: int, rows: int) -> GroupLimits:
    """Cached for each pair of sizes, because every invocation calls this."""
    return GroupLimits(keys, rows)


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of the engine's structures, not set in production. Tests reduce them to get many pages and packs.

    Each is at least 1.
    """

    page: int = 512
    """Records in a page of the published maps (`psoup.published.paged_map`). A change copies its page."""

    owner_page: int = 4_096
    """Queries in a page of admission's map from queries to streams."""

    few_members: int = 64
    """The most queries of a clause that are kept as a tuple. More become a map in pages."""

    most_packs: int = 4
    """The most packs of a chunk's results. More are merged into one."""

    tier: int = 16
    """The number of runs of similar size that are merged at once. Merges of two runs cost more than the join itself."""

    large_run: int = 4_096
    """The least number of pairs of a large run. Twice as many large runs are kept, as shards make several for each
    piece. The task that seals a chunk merges all its runs at once."""

    merge_ratio: int = 8
    """A part of the predicate index is merged if it is at most this many times as large as all later parts."""

    most_parts: int = 4
    """The most frozen parts of the index. Beyond this number the delta may grow: each part costs a pass over the
    tuples."""

    waiting_runs: int = 32
    """The number of pushes in a reorder buffer after which the latest pushes are merged."""

    join_ratio: int = 4
    """A run of waiting tuples is merged with the later runs if it is at most this many times as long."""

    compact_from: int = 64
    """The least number of clauses that must have gone since the last compaction of a chunk. For many clauses it is an
    eighth of the live ones."""

    tidy_from: int = 64
    """The least number of dead slots for which the open results are rebuilt. They must also outnumber the live
    clauses."""

    key_probes: int = 8
    """The number of searches of a column of a closed chunk after which it gets a key index. An index costs as much as
    20 searches. A search of texts counts as four."""

    keys_at_once: int = 16
    """The most key indexes that one invocation makes: some 10 ms."""

    key_values: int = 32
    """The least number of different values among 512 rows of a column for a key index. In a column of few rows, half as
    many values as rows are enough."""

    key_share: int = 128
    """Divisor of the rows of a chunk. At most so many rows, and at least 16, are looked up by keys."""

    cut_rows: int = 32_768
    """The least number of rows of a side of a join that look-ups may reduce."""

    cut_ratio: int = 64
    """The least number of rows of that side for each row of the other side, whose keys are looked up."""

    cut_worth: int = 4
    """Divisor of the rows of a side. Look-ups that leave more rows are not worth their time."""

    fold_fan: int = 16
    """The number of folds of chunks that form one of a wider span. 1: aggregates are always folded tuple by tuple."""

    open_work: int = 32_000_000
    """The most nanoseconds of work for new clauses of an event over open chunks, while all tenants wait. The work is
    estimated by counts (`psoup.matching.old_work`). Above it the chunk is closed first, and maintenance covers it."""

    cover_at_once: int = 8_192
    """The most clauses that one task covers. It holds a row of bits for each, at most 64 MiB for a chunk."""

    cover_pairs: int = 32_768
    """The most pairs of a clause and a chunk in one task: some tenths of a second, in which other maintenance waits."""

    def __post_init__(self) -> None:
        """Raise InvalidInput for a size below 1."""
        wrong = [f"{size.name} is {getattr(self, size.name)}" for size in fields(self) if getattr(self, size.name) < 1]
        if wrong:
            raise InvalidInput(f"{', '.join(wrong)}; each size is at least 1")


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Settings of the engine, read once, by its constructor."""

    chunk_rows: int = CHUNK_ROWS
    """Tuples in a chunk: a multiple of 64, at most 65,536 (offsets are uint16)."""

    unstored_chunks: int = 0
    """The most closed chunks of a stream that wait in the log, because a short retention may pass them before they are
    stored. A passed chunk is never stored. 0: all are stored at once."""

    unstored_bytes: int = 16 * 1024 * 1024
    """The most bytes of such waiting tuples in each stream. A start replays them."""

    chunk_text_bytes: int = 64 * 1024 * 1024
    """Bytes of text after which a chunk is closed early."""

    piece_rows: int = 8_192
    """The most tuples that are evaluated together."""

    block_rows: int = 4_096
    """Tuples of an open chunk whose bits are adjacent, query after query: a power of two, at least 64. A piece within
    one such block is written to the fewest pages of memory."""

    list_limit: int = 1_024
    """The most matches of a sealed column that are kept as a list of offsets. More become a bitmap."""

    dense_share: int = 64
    """A query is emitted as a bitmap if its most selective factor passes more than 1 in this many tuples."""

    sparse_floor: int = 8
    """The least number of tuples that are worth a bitmap row. Fewer tuples of a piece are always compared one by
    one."""

    generous_rows: int = 8_192
    """The most bitmap rows (8 KiB each) of an open chunk for which an eighth of `dense_share` is enough: that is
    faster."""

    delta_queries: int = 1_024
    """The most recent queries in the second predicate index before maintenance merges it into the first."""

    memory_bytes: int = 4 * 1024**3
    """The budget for tuples, queries and results. Above it a push or a registration is refused (0: every one). Results
    take the rest, at least an eighth of it, and are evicted beyond that."""

    results_bytes: int = 4 * 1024**3
    """The most of this budget for results. More are evicted, oldest first: their columns become uncovered and are
    evaluated when they are read. Key indexes take the bytes that results leave, and are dropped first."""

    sort_rows: int = 5_000_000
    """The most rows that ORDER BY or DISTINCT may hold in one invocation."""

    group_keys: int = 4_194_304
    """The most groups of one invocation; see `groups`."""

    group_rows: int = 1_048_576
    """The most groups in one answer; see `groups`."""

    join_pairs: int = _JOIN_PAIRS
    """The most candidates that one invocation of a join may compare; see `joins`."""

    join_bytes: int = _JOIN_BYTES
    """The most bytes that one invocation of a join may hold; see `joins`."""

    archive_rows: int = NO_LIMIT
    """The most tuples on disk that one invocation may evaluate, where no result of its query exists yet. A service
    limits the time instead, as it has a clock (`ReadBudget.archive`)."""

    ahead: int = 300 * SECOND
    """Microseconds that an event time may be ahead of the clock, in new streams without AHEAD. Tuples further ahead are
    refused one by one."""

    max_ahead: int = 86_400 * SECOND
    """The greatest AHEAD of any stream. It also limits streams that are older than AHEAD."""

    kept_acknowledgements: int = REMEMBERED.acknowledgements
    """The most acknowledgements that are remembered for each producer; see `remembered`."""

    kept_requests: int = 65_536
    """The most request IDs of registrations that are remembered for each tenant."""

    kept_removals: int = REMEMBERED.removals
    """The most request IDs of calls that unregistered many queries, for each tenant; see `remembered`."""

    block_queries: int = 131_072
    """The most queries that one call may register."""

    block_bytes: int = 64 * 1024**2
    """The most bytes of statements and values that one call may register."""

    columnar_queries: int = COLUMNAR_QUERIES
    """The least number of queries of a block by template that are kept as columns: fewer are not worth a part of an
    index."""

    producer_idle: int = REMEMBERED.idle
    """Microseconds after which a silent producer is forgotten; see `remembered`."""

    batch_rows: int = 1_048_576
    """The most tuples of one push."""

    batch_bytes: int = 2 * 1024**3
    """The most bytes of the columns that one push, or one batch in parts, may fill."""

    staged_rows: int = 16_777_216
    """The most tuples of one batch in parts."""

    text_bytes: int = 1024 * 1024
    """The most UTF-8 bytes of one TEXT value, pushed or computed."""

    evaluation_bytes: int = 64 * 1024 * 1024
    """The most bytes of TEXT that one expression may make over a piece of a stream. Beyond that the piece is cut."""

    streams: int = 10_000
    """The most streams of one tenant."""

    producers: int = 65_536
    """The most producers that are remembered for each stream. A further one replaces the longest silent one."""

    producer_rest: int = 60 * SECOND
    """Microseconds that a producer must have been silent before a new one replaces it."""

    shape: Shape = field(default=Shape(), repr=False)
    """Sizes of internal structures."""

    @property
    def block_words(self) -> int:
        """Words of bits in a block. The block is shorter than `block_rows` if a chunk is not a multiple of it."""
        return gcd(self.chunk_rows, self.block_rows) // _WORD

    @property
    def texts(self) -> TextLimits:
        """The limits of texts in the evaluation of expressions."""
        return _texts(self.text_bytes, self.evaluation_bytes)

    @property
    def groups(self) -> GroupLimits:
        """The limits of the groups of one answer."""
        return _groups(self.group_keys, self.group_rows)

    @property
    def joins(self) -> JoinLimits:
        """The limits of one join."""
        return _joins(self.join_pairs, self.join_bytes)

    @property
    def remembered(self) -> Remembered:
        """The memory of producers and of removals, also for the store."""
        return Remembered(self.kept_acknowledgements, self.producer_idle, self.kept_removals)

    def __post_init__(self) -> None:
        """Raise InvalidInput for a chunk size unfit for offsets or words of bits: kernels would write past the end of
        arrays."""
        if not 0 < self.chunk_rows <= CHUNK_ROWS or self.chunk_rows % 64:
            raise InvalidInput(
                f"chunk_rows is {self.chunk_rows}; it must be a multiple of 64, from 64 to {CHUNK_ROWS:,}"
            )
        if self.block_rows < _WORD or self.block_rows & (self.block_rows - 1):
            raise InvalidInput(f"block_rows is {self.block_rows}; it must be a power of two, at least {_WORD}")
        if self.piece_rows < 1:
            raise InvalidInput(f"piece_rows is {self.piece_rows}; a piece has at least one tuple")
