"""The sizes and limits of the engine. They are constructor arguments, so that a test can have chunks of 64 tuples."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from math import gcd

from psoup.errors import InvalidInput
from psoup.model import SECOND
from psoup.retry_memory import REMEMBERED, Remembered
from psoup.work.read_budget import NO_LIMIT

CHUNK_ROWS = 65_536
"""The most tuples of a chunk, because an offset in a chunk has 16 bits. It is also the default."""
_WORD = 64
_JOIN_PAIRS = 256 * 1024**2
_JOIN_BYTES = 256 * 1024**2

COLUMNAR_QUERIES = 256
"""The least number of queries of a block for binding by columns (`psoup.sql.templates.ladder`). A replay uses this
number too, for old events that do not say how their queries were bound."""


@dataclass(frozen=True, slots=True)
class TextLimits:
    """Limits of the texts that expressions compute.

    `value`: UTF-8 bytes of one text. A longer result is an error of its row. `together`: bytes of all texts that one
    expression computes over some rows, including intermediate results. Above this limit, the evaluator cuts the rows
    into parts. `parts`: the most such parts, None for any number. `several`: replaces `together` if there is more than
    one row.
    """

    value: int = 1024 * 1024
    together: int = 64 * 1024 * 1024
    parts: int | None = None
    several: int | None = None

    def of(self, rows: int) -> int:
        """The limit, in bytes, of all texts that an expression computes over `rows` rows. O(1)."""
        return self.together if self.several is None or rows < 2 else self.several

    def in_pieces(self, most: int) -> TextLimits:
        """A copy that limits the texts over several rows to `most` bytes. The limits of one row stay the same."""
        return _in_pieces(self, most)


@lru_cache
def _in_pieces(limits: TextLimits, most: int) -> TextLimits:
    """The result of `TextLimits.in_pieces`, cached because every sort and every GROUP BY calls it."""
    return replace(limits, several=max(min(most, limits.together), 1))


@lru_cache
def _texts(value: int, together: int) -> TextLimits:
    """The limits for a pair of sizes, cached because every invocation calls this."""
    return TextLimits(value, together)


@dataclass(frozen=True, slots=True)
class JoinLimits:
    """The limits of one join, and the sizes of its pieces. Each is at least 1."""

    pairs: int = _JOIN_PAIRS
    """The most candidates that the join compares. A candidate is a pair of a partial tuple and a row that satisfy
    one factor."""

    bytes: int = _JOIN_BYTES
    """The most bytes that the join holds: keys, sorted sides, and tuples that it has not yet returned."""

    rows: int = 65_536
    """The most tuples of the join in one piece of the result."""

    first: int = 1_024
    """The most tuples in the first piece of the result. Also the most rows of the first source in the first step. A
    small first piece makes the first rows of an answer early. Both numbers grow from piece to piece."""

    piece: int = 8_192
    """The number of partial tuples that one call extends by a source."""

    kept: int = 1_048_576
    """The most tuples that the join holds to sort them, if its steps had another order than FROM."""


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """The limits of the groups of one answer. Each is at least 1."""

    keys: int = 4_194_304
    """The most groups. Also the most different values of one key, or of a DISTINCT aggregate."""

    rows: int = 1_048_576
    """The most groups in one answer."""


@lru_cache
def _joins(pairs: int, bytes_limit: int) -> JoinLimits:
    """The limits for a pair of sizes, cached because every invocation calls this."""
    return JoinLimits(pairs, bytes_limit)


@lru_cache
def _groups(keys: int, rows: int) -> GroupLimits:
    """The limits for a pair of sizes, cached because every invocation calls this."""
    return GroupLimits(keys, rows)


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of the engine's internal structures. Production uses the defaults. Tests reduce them to get many pages and
    packs.

    Each is at least 1.
    """

    page: int = 512
    """The records in one page of a published map (`psoup.published.paged_map`). To change a record, the writer
    copies its page."""

    owner_page: int = 4_096
    """The queries in one page of admission's map from queries to streams."""

    few_members: int = 64
    """The most queries of a clause that are stored as a Python tuple. More queries become a map in pages."""

    most_packs: int = 4
    """The most packs of a chunk's results. If there are more, they are merged into one pack."""

    tier: int = 16
    """The number of runs of similar size that one merge of an open chunk's results combines. Merges of two runs cost
    more than the join itself."""

    large_run: int = 4_096
    """The least number of pairs of a large run. Large runs are merged only when there are `2 * tier` of them. Shards
    make several of them for each piece, and the task that seals the chunk merges all runs at once."""

    merge_ratio: int = 8
    """Maintenance merges an index part that is at most this many times as large as all later parts."""

    most_parts: int = 4
    """The most frozen parts of the predicate index. With this many parts, the delta grows instead. Each part costs
    one pass over the tuples of each piece."""

    waiting_runs: int = 32
    """The most runs in a reorder buffer. With one more, the buffer merges the latest runs. A push adds a run."""

    join_ratio: int = 4
    """A reorder buffer merges a run that is at most this many times as long as all later runs."""

    compact_from: int = 64
    """The number of clauses that must end after a chunk's compaction before maintenance compacts it again. With many
    clauses, it is an eighth of the live ones."""

    tidy_from: int = 64
    """The number of dead slots above which maintenance rebuilds the open results. They must also outnumber the live
    clauses."""

    key_probes: int = 8
    """The number of searches of a closed chunk's column after which the column gets a key index. Building the index
    costs as much as 20 searches. A search of texts counts as four."""

    keys_at_once: int = 16
    """The most key indexes that one invocation builds, in some 10 ms."""

    key_values: int = 32
    """The least number of different values in a sample of 512 rows for which a column gets a key index. For a column
    of few rows, half as many values as rows are enough."""

    key_share: int = 128
    """A search by keys may find at most 1 in this many rows of a chunk, or 16. For more rows, a full search is
    quicker."""

    cut_rows: int = 32_768
    """The least number of rows of a join's large side for which look-ups by key may reduce the side."""

    cut_ratio: int = 64
    """The least ratio of the rows of a join's large side to its small side for such look-ups."""

    cut_worth: int = 4
    """The join uses a reduced side only if at most 1 in this many rows of the side are left."""

    fold_fan: int = 16
    """The number of folds that form one fold of a wider span of chunks. With 1, aggregates are always folded tuple
    by tuple."""

    open_work: int = 32_000_000
    """The most nanoseconds for which the clauses of one event are joined with open chunks. All tenants wait
    meanwhile. `psoup.matching.old_work` estimates the work. Above this limit the writer closes the chunk, and
    maintenance covers it."""

    cover_at_once: int = 8_192
    """The most clauses that one maintenance task covers. The task holds a row of bits for each, at most 64 MiB for a
    chunk."""

    cover_pairs: int = 32_768
    """The most pairs of a clause and a chunk that one maintenance task covers. Other tasks wait for some tenths of a
    second."""

    def __post_init__(self) -> None:
        """Raise InvalidInput for a size below 1."""
        wrong = [f"{size.name} is {getattr(self, size.name)}" for size in fields(self) if getattr(self, size.name) < 1]
        if wrong:
            raise InvalidInput(f"{', '.join(wrong)}; each size is at least 1")


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Settings of the engine. Its constructor reads them once."""

    chunk_rows: int = CHUNK_ROWS
    """Tuples in a chunk: a multiple of 64, at most 65,536 (offsets are uint16)."""

    unstored_chunks: int = 0
    """The most closed chunks of a stream that are only in the log, not in a file. With 0, each chunk gets a file at
    once. A chunk that passes its retention meanwhile is never written to a file."""

    unstored_bytes: int = 16 * 1024 * 1024
    """The most bytes of a stream's tuples in chunks that are only in the log. A start replays them."""

    chunk_text_bytes: int = 64 * 1024 * 1024
    """Bytes of text after which the writer closes a chunk, even if it has room for more tuples."""

    piece_rows: int = 8_192
    """The most tuples of a piece. The writer joins new tuples with the clauses piece by piece."""

    block_rows: int = 4_096
    """The number of tuples in a block of an open chunk: a power of two, at least 64. The bits of a block are
    adjacent in memory, query after query. So the writer touches the fewest pages for a piece that lies within one
    block."""

    list_limit: int = 1_024
    """The most matches of a clause in a sealed chunk for which a list of offsets is kept. More matches become a
    bitmap."""

    dense_share: int = 64
    """A query's matches become a bitmap if its most selective factor passes more than 1 in this many tuples."""

    sparse_floor: int = 8
    """The least number of tuples for which a bitmap row is worth its cost. Fewer tuples of a piece are always
    compared one by one."""

    generous_rows: int = 8_192
    """The most bitmap rows (8 KiB each) of an open chunk for which bitmaps have a lower threshold.

    The threshold is an eighth of the usual number of matches. With few rows this is faster.
    """

    delta_queries: int = 1_024
    """The most queries in the delta, the predicate index of recent queries. Beyond it, maintenance freezes the
    delta."""

    memory_bytes: int = 4 * 1024**3
    """The budget, in bytes, for tuples, queries and results. Above it, admission refuses pushes and registrations.
    With 0, admission refuses all of them. Results take the bytes that tuples and queries leave, but at least an
    eighth of the budget. Above that, they are evicted."""

    results_bytes: int = 4 * 1024**3
    """The most bytes of `memory_bytes` for results. Above it, the oldest results are evicted. Readers evaluate an
    evicted column again. Key indexes take the bytes that results leave, and are dropped first."""

    answer_bytes: int = 256 * 1024**2
    """The most bytes of the kept answers of COMPLETE queries. They take the bytes of `results_bytes` that results, key
    indexes and kept pairs leave, and are dropped first. With 0, no answer is kept."""

    sort_rows: int = 5_000_000
    """The most rows that a sort, DISTINCT, a set operation or a subselect may hold in one invocation."""

    group_keys: int = 4_194_304
    """The most groups that one invocation may compute. See `groups`."""

    group_rows: int = 1_048_576
    """The most groups in one answer. See `groups`."""

    join_pairs: int = _JOIN_PAIRS
    """The most candidates that one invocation of a join may compare. See `joins`."""

    join_bytes: int = _JOIN_BYTES
    """The most bytes that one invocation of a join may hold. See `joins`."""

    archive_rows: int = NO_LIMIT
    """The most tuples on disk that one invocation may evaluate. Tuples with a known result of its query do not
    count. A service limits the time instead, because it has a clock (`ReadBudget.archive`)."""

    ahead: int | None = None
    """Microseconds that an event time may be ahead of the clock, in new streams without AHEAD. Their watermarks follow
    such tuples, as if each statement had this AHEAD. With None, the default, the limit is
    `psoup.model.DEFAULT_AHEAD`, and tuples move the watermark at most to the clock less LATENESS."""

    max_ahead: int = 86_400 * SECOND
    """The greatest AHEAD of any stream. It also limits streams that were created before AHEAD existed."""

    resume_grace: int = 60 * SECOND
    """Microseconds of taking pushes after which the clock moves watermarks (WATERMARK BY CLOCK), or LATENESS if it is
    longer. The time begins at a start, and anew when pushes are refused or wait."""

    follow_keep: int = 86_400 * SECOND
    """Microseconds for which tables keep ended versions for a follower's position, also after their HISTORY."""

    kept_acknowledgements: int = REMEMBERED.acknowledgements
    """The most acknowledgements that admission remembers for each producer. See `remembered`."""

    kept_requests: int = 65_536
    """The most request IDs of registrations that admission remembers for each tenant."""

    kept_removals: int = REMEMBERED.removals
    """The most request IDs of UnregisterMany calls that admission remembers for each tenant. See `remembered`."""

    block_queries: int = 131_072
    """The most queries that one call may register."""

    block_bytes: int = 64 * 1024**2
    """The most bytes of statements and values that one call may register."""

    columnar_queries: int = COLUMNAR_QUERIES
    """The least number of queries of a template that a block keeps as columns. Fewer need no part of an index."""

    producer_idle: int = REMEMBERED.idle
    """Microseconds after which admission forgets a producer that sends nothing. See `remembered`."""

    key_idle: int = REMEMBERED.key_idle
    """Microseconds after which admission forgets an idempotency key. At most `producer_idle`. See `remembered`."""

    batch_rows: int = 1_048_576
    """The most tuples of one push."""

    batch_bytes: int = 2 * 1024**3
    """The most bytes of the columns that one push, or one batch in parts, may fill."""

    staged_rows: int = 16_777_216
    """The most tuples of one batch in parts."""

    text_bytes: int = 1024 * 1024
    """The most UTF-8 bytes of one TEXT value, pushed or computed."""

    evaluation_bytes: int = 64 * 1024 * 1024
    """The most bytes of TEXT that one expression may make over a piece of a stream. Above that, the evaluator cuts
    the piece into parts."""

    streams: int = 10_000
    """The most streams of one tenant."""

    producers: int = 65_536
    """The most producers that admission remembers for each stream. One more replaces the producer that is silent
    longest."""

    idempotency_keys: int = 262_144
    """The most idempotency keys that admission remembers for each stream. Further ones are refused."""

    producer_rest: int = 60 * SECOND
    """Microseconds for which a producer must have been silent before a new producer may replace it."""

    shape: Shape = field(default=Shape(), repr=False)
    """Sizes of internal structures."""

    @property
    def block_words(self) -> int:
        """The number of 64-bit words in a block. If `chunk_rows` is not a multiple of `block_rows`, the block is
        shorter."""
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
        """The limits of the past calls that admission and the store remember."""
        return Remembered(self.kept_acknowledgements, self.producer_idle, self.kept_removals, self.key_idle)

    def __post_init__(self) -> None:
        """Raise InvalidInput for sizes with which kernels would write past the end of arrays."""
        if not 0 < self.chunk_rows <= CHUNK_ROWS or self.chunk_rows % 64:
            raise InvalidInput(
                f"chunk_rows is {self.chunk_rows}; it must be a multiple of 64, from 64 to {CHUNK_ROWS:,}"
            )
        if self.block_rows < _WORD or self.block_rows & (self.block_rows - 1):
            raise InvalidInput(f"block_rows is {self.block_rows}; it must be a power of two, at least {_WORD}")
        if self.piece_rows < 1:
            raise InvalidInput(f"piece_rows is {self.piece_rows}; a piece has at least one tuple")
