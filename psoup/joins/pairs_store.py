"""Kept pairs: the rows of two closed chunks that satisfy all factors between them, for any selection of queries.

              right chunk   4        5        6             starts  0 2 2 3     blocks of one chunk on the left, in the
    left chunk 7   left     8 9    |        | 3             kept    1 1 1       order of the chunks on the right
                   right    1 1    |        | 7

A block depends on no clause, and on no condition that is neither a key nor a band. So all queries with the same factors
between the same two streams share it; a query takes the pairs of rows that it selects. Two kinds of blocks are not
kept. A block with more pairs than both chunks have rows takes longer to filter than to find. From a block with a failed
operand, a reader could not count the failures of an answer. `psoup.engine.kept_pairs` decides which blocks exist, and
`psoup.execution.join.kept_pairs` answers from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from psoup import budgets
from psoup.config import JoinLimits
from psoup.data.chunk import ChunkView
from psoup.errors import ResourceExhausted
from psoup.expressions.conversion import comparable
from psoup.expressions.error_guard import column_of
from psoup.expressions.tree import AttributeRef, Call, Expr, Literal
from psoup.invariants import ensure
from psoup.joins.join_pieces import joined
from psoup.joins.key_columns import FLIPPED
from psoup.joins.residual import without_rest
from psoup.plan.nodes import Join, Node, PairFactor, walk
from psoup.plan.plan_facts import plan_fact
from psoup.values.columns import Array, Column, concat_columns
from psoup.work.read_budget import UNBOUNDED, ReadBudget

_NAMES = ("l", "r")
"""Names of the streams in the text of factors."""
_LOOKED = 64
"""The most candidates for each row that are looked at. Blocks that need more are not kept."""
_PAIR_BYTES = 96
"""The bytes of a pair while blocks are made: found (16), concatenated (16), sorted into blocks (60), kept (4)."""
_NUMBER_BYTES = 17
"""The most bytes of one row's operand that is a sum: a number of 16 bytes, and its validity flag."""
BYTES = (budgets.SORT_BYTES.name, budgets.SHARED_BYTES.name)
"""The names of the budgets whose limits can be met by taking fewer chunks at a time."""
_NONE: Array = np.zeros(0, np.uint16)

PairKey = tuple[int, int, str]
"""The IDs of the left and the right stream, and the text of the factors between them."""


@dataclass(frozen=True, slots=True)
class PairRow:
    """The pairs of one left chunk with consecutive right chunks, the first of which has number `first`.

    `starts`: int64[n + 1], where the pairs of each right chunk begin. `kept`: bool[n], whether the block is kept.
    `left`, `right`: uint16, the rows of each pair in the two chunks.
    """

    first: int
    starts: Array
    kept: Array
    left: Array
    right: Array

    @property
    def stop(self) -> int:
        """The number of the chunk after the last right one."""
        return self.first + len(self.kept)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in (self.starts, self.kept, self.left, self.right))

    def since(self, number: int) -> PairRow:
        """A copy without the right chunks before `number`. O(pairs)."""
        skip = min(max(number - self.first, 0), len(self.kept))
        if not skip:
            return self
        begin = int(self.starts[skip])
        arrays = (
            self.starts[skip:] - begin,
            self.kept[skip:].copy(),
            self.left[begin:].copy(),
            self.right[begin:].copy(),
        )
        return PairRow(self.first + skip, *arrays)

    def followed_by(self, later: PairRow) -> PairRow:
        """A row with the right chunks of this row and those of `later`, which must follow them. O(pairs)."""
        ensure(self.stop == later.first, self, "pairs do not follow", stop=self.stop, first=later.first)
        starts = np.concatenate([self.starts, later.starts[1:] + self.starts[-1]])
        arrays, more = (self.kept, self.left, self.right), (later.kept, later.left, later.right)
        return PairRow(self.first, starts, *[np.concatenate(both) for both in zip(arrays, more, strict=True)])

    def check(self) -> None:
        """Check that the blocks add up, and that pairs ascend in each block."""
        counts = np.diff(self.starts)
        whole = self.starts[0] == 0 and self.starts[-1] == len(self.left) == len(self.right)
        ensure(whole and bool((counts >= 0).all()), self, "blocks do not add up", starts=self.starts)
        ensure(not counts[~self.kept].any(), self, "a block has pairs that are not kept")
        codes = (np.repeat(np.arange(len(counts)), counts) << 32) + (self.left.astype(np.int64) << 16) + self.right
        ensure(bool((np.diff(codes) > 0).all()), self, "pairs do not ascend")


@dataclass(frozen=True, slots=True)
class PairTable:
    """The rows of consecutive left chunks, the first of which has number `first`. A row is None until it is computed.

    `least`: the least number of a right chunk that still exists. `refused`: the reason why no more rows are computed
    for now, or "".
    """

    first: int = 0
    rows: tuple[PairRow | None, ...] = ()
    least: int = 0
    refused: str = ""

    @property
    def pairs(self) -> int:
        """The number of kept pairs."""
        return sum(len(row.left) for row in self.rows if row is not None)

    @property
    def blocks(self) -> tuple[int, int]:
        """The number of computed blocks, and the number of kept blocks."""
        rows = [row.kept for row in self.rows if row is not None]
        return sum(map(len, rows)), sum(int(flags.sum()) for flags in rows)

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return sum(row.nbytes for row in self.rows if row is not None)

    def row(self, number: int) -> PairRow | None:
        """The row of a left chunk, or None."""
        at = number - self.first
        return self.rows[at] if 0 <= at < len(self.rows) else None


@dataclass(frozen=True, slots=True)
class KeptPairs:
    """All kept pairs. `queries`: for each key, the IDs (int64, ascending) of the queries that keep its pairs.

    `chosen`: for some keys, the queries for which AUTO chose it. `asked_for`: the keys of pairs that another query
    keeps, which is not idle.
    """

    tables: Mapping[PairKey, PairTable] = field(default_factory=lambda: MappingProxyType({}))
    queries: Mapping[PairKey, Array] = field(default_factory=lambda: MappingProxyType({}))
    chosen: Mapping[PairKey, Array] = field(default_factory=lambda: MappingProxyType({}))
    asked_for: frozenset[PairKey] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.tables)

    @property
    def nbytes(self) -> int:
        """Bytes of all pairs."""
        return sum(table.nbytes for table in self.tables.values())

    def of(self, node: Join, streams: Sequence[int]) -> PairTable | None:
        """The kept pairs of a join. `streams`: the IDs of its two streams. None if no pairs are kept for it."""
        text = pair_text(node) if self.tables else None
        return None if text is None else self.tables.get((streams[0], streams[1], text))

    def keeps(self, query_id: int) -> bool:
        """Whether a query asked to keep its pairs. O(joins * log n)."""
        return _is_in(self.queries, query_id) and not self.chooses(query_id)

    def chooses(self, query_id: int) -> bool:
        """Whether AUTO chose to keep the pairs of a query. O(joins * log n)."""
        return _is_in(self.chosen, query_id)


def _is_in(queries: Mapping[PairKey, Array], query_id: int) -> bool:
    places = ((ids, int(np.searchsorted(ids, query_id))) for ids in queries.values())
    return any(at < len(ids) and ids[at] == query_id for ids, at in places)


NO_PAIRS = KeptPairs()


def join_with_pairs(plan: Node) -> Join | None:
    """The join of a plan, without residual conditions, or None if its pairs cannot be kept.

    It must join two streams by columns, or by sums of a column and constants.
    """
    join = next((node for _, node in walk(plan) if isinstance(node, Join)), None)
    if join is None or len(plan.sources) != len(join.inputs) or pair_text(join) is None:
        return None
    return without_rest(join)


@plan_fact
def pair_text(node: Join) -> str | None:
    """The text of a join's keys and bands. Joins with the same text have the same pairs. None: pairs cannot be kept."""
    factors = [factor for factor in (*node.keys, *node.bands) if not factor.implied]
    operands = [expr for factor in factors for expr in comparable(factor.left, factor.right)]
    if len(node.inputs) != 2 or not node.joins_streams or not factors or not all(map(_is_simple, operands)):
        return None
    return " AND ".join(sorted(_from_left(factor).text(_NAMES) for factor in factors))


def _is_simple(expr: Expr) -> bool:
    """Whether an expression is a column, or a sum of a column and constants."""
    if isinstance(expr, Call):
        operand, *rest = expr.args
        sums = expr.name in ("add", "sub", "add_interval")
        return sums and isinstance(operand, AttributeRef) and all(isinstance(arg, Literal) for arg in rest)
    return isinstance(expr, AttributeRef)


def _from_left(factor: PairFactor) -> PairFactor:
    if factor.sources == (0, 1):
        return factor
    return PairFactor(FLIPPED[factor.operator], factor.right, factor.left)


class _ChunkSide:
    """All rows of some chunks, as a side of a join."""

    def __init__(self, chunks: Sequence[ChunkView]) -> None:
        self._chunks = chunks
        self.rows = sum(map(len, chunks))

    def bytes_of(self, expr: Expr) -> int:
        """The bytes of an operand over all rows, known before it is computed."""
        if isinstance(expr, AttributeRef) and expr.index >= 0:
            return sum(chunk.columns[expr.index].nbytes for chunk in self._chunks)
        return _NUMBER_BYTES * self.rows

    def columns(self, exprs: Sequence[Expr]) -> list[Column]:
        """See JoinSide."""
        return [concat_columns([_column(expr, chunk) for chunk in self._chunks]) for expr in exprs]

    def take(self, exprs: Sequence[Expr], positions: Array) -> list[Column]:
        """See JoinSide."""
        return [column.take(positions) for column in self.columns(exprs)]


def _column(expr: Expr, chunk: ChunkView) -> Column:
    return column_of(expr, chunk.columns, chunk.ids_of(0, len(chunk)), chunk.times)


def pairs_of(
    node: Join, lefts: Sequence[ChunkView], rights: Sequence[ChunkView], budget: ReadBudget = UNBOUNDED
) -> list[PairRow]:
    """The row of each left chunk with consecutive right chunks. O(rows + pairs).

    If the pairs are too many, or need more than the budget, the function halves the chunks and calls itself. Bytes are
    charged before they are allocated, except for one piece of the join (1 MiB). The bytes of the result stay charged.
    Raises ResourceExhausted if two chunks alone need more than the budget.
    """
    charged = budget.held
    try:
        pairs = _pairs_found(node, lefts, rights, budget)
        if pairs is not None:
            rows = _blocks(pairs, lefts, rights)
            charged += sum(row.nbytes for row in rows)
            return rows
    except ResourceExhausted as problem:
        if len(lefts) == len(rights) == 1 or problem.facts.get("budget") not in BYTES:
            raise
    finally:
        budget.give_back(budget.held - charged)
    if len(lefts) > 1:
        middle = len(lefts) // 2
        return pairs_of(node, lefts[:middle], rights, budget) + pairs_of(node, lefts[middle:], rights, budget)
    if len(rights) > 1:
        middle = len(rights) // 2
        (first,) = pairs_of(node, lefts, rights[:middle], budget)
        (rest,) = pairs_of(node, lefts, rights[middle:], budget)
        size = first.nbytes + rest.nbytes
        budget.hold(size)
        row = first.followed_by(rest)
        budget.give_back(size)  # for the two parts, which are freed
        return [row]
    return [PairRow(rights[0].number, np.zeros(2, np.int64), np.zeros(1, np.bool_), _NONE, _NONE)]


def _pairs_found(
    node: Join, lefts: Sequence[ChunkView], rights: Sequence[ChunkView], budget: ReadBudget
) -> list[Array] | None:
    """The pairs as rows of both sides. None if there are too many pairs, or if an operand failed."""
    sides = _ChunkSide(lefts), _ChunkSide(rights)
    limit = sides[0].rows * len(rights) + sides[1].rows * len(lefts)
    pieces, count = list[list[Array]](), 0
    budget.hold(_operand_bytes(node, sides))
    join = joined(node, sides, budget=budget, limits=JoinLimits(pairs=_LOOKED * limit))
    try:
        for piece in join:
            count += len(piece[0])
            if count > limit:
                return None
            budget.hold(_PAIR_BYTES * len(piece[0]))
            pieces.append(piece)
    except ResourceExhausted as problem:
        if problem.reason != "JOIN_BUDGET":
            raise
        return None
    finally:
        join.close()
    if join.errors:
        return None
    return [np.concatenate(rows) for rows in zip(*pieces, strict=True)] if pieces else [_NONE, _NONE]


def _operand_bytes(node: Join, sides: Sequence[_ChunkSide]) -> int:
    """The bytes of all operands, concatenated from the chunks."""
    factors = (*node.keys, *node.bands)
    operands = [operand for f in factors for operand in zip(f.sources, (f.left, f.right), strict=True)]
    return sum(sides[source].bytes_of(expr) for source, expr in operands)


def _blocks(pairs_found: Sequence[Array], lefts: Sequence[ChunkView], rights: Sequence[ChunkView]) -> list[PairRow]:
    """Split the pairs, which are in the order of FROM, into blocks. Blocks with too many pairs are left empty."""
    left_edges, right_edges = (np.cumsum([0, *map(len, chunks)]) for chunks in (lefts, rights))
    edges, rows = np.searchsorted(pairs_found[0], left_edges), list[PairRow]()
    for begin, stop, first, chunk in zip(edges[:-1], edges[1:], left_edges, lefts, strict=False):
        places = np.searchsorted(right_edges, pairs_found[1][begin:stop], "right") - 1
        order = np.argsort(places, kind="stable")
        sizes = np.bincount(places, minlength=len(rights))
        worth_keeping = sizes <= [len(chunk) + len(other) for other in rights]
        order = order[worth_keeping[places[order]]]
        pairs = (pairs_found[0][begin:stop] - first)[order], (pairs_found[1][begin:stop] - right_edges[places])[order]
        starts = np.concatenate([[0], np.cumsum(np.where(worth_keeping, sizes, 0))])
        rows.append(
            PairRow(
                rights[0].number, starts, worth_keeping, *[rows_of_side.astype(np.uint16) for rows_of_side in pairs]
            )
        )
    return rows
