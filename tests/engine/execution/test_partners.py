"""Joins that depend on rows without a partner, against nested loops: all kinds, nested in one another, in small pieces.

a tree of joins made by hand ─> its rows, by every reader (columns, ORDER BY, DISTINCT, LIMIT, aggregates)
"""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig, JoinLimits
from psoup.errors import ResourceExhausted
from psoup.execution.partners import composition, existence, join_inputs, partner_rows
from psoup.execution.plan import rows_of
from psoup.execution.rows.answer_case import AnswerCase
from psoup.execution.rows.record_batch import Message, form_of, read
from psoup.execution.rows.source_rows import Reading
from psoup.execution.ways import ANSWER
from psoup.expressions.tree import ID_INDEX, TIME_INDEX, AttributeRef, Call, Expr, Literal
from psoup.local import LocalPSoup
from psoup.model import BIGINT, BOOLEAN, TEXT, TIMESTAMP
from psoup.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    JoinKind,
    Limit,
    Measure,
    Node,
    OrderKey,
    Output,
    PairFactor,
    PartnerJoin,
    Project,
    Sort,
    Source,
)
from psoup.plan.way import TryNext
from psoup.work.clock import VirtualClock
from psoup_testing.oracles.partner_joins import Row, Tables, rows_by_looking
from psoup_testing.suite.sweeps import swept

OLDER = 58
"""The tuples of each stream before its window, which begins in one chunk and ends in the next one."""
TINY = JoinLimits(rows=7, first=3, piece=5, kept=11)
KINDS = [kind for kind in JoinKind if not kind.is_as_of]
"""All kinds but joins AS OF, whose right is a table (`test_answer_as_of`)."""
K, T, W = 0, 1, 2
"""The columns of each stream: a key, a number, a text. All may be NULL."""


class Streams:
    """Streams a, b, c, d with a few rows each, and a reading of all of them."""

    def __init__(self, seed: int, rows: tuple[int, ...] = (9, 14, 6, 11)) -> None:
        rng = np.random.default_rng(seed)
        self.soup = LocalPSoup(EngineConfig(chunk_rows=64), VirtualClock(100))
        self.tables: dict[int, list[list[Any]]] = {}
        names = "abcd"[: len(rows)]
        for place, (name, count) in enumerate(zip(names, rows, strict=True)):
            self.soup.execute(f"CREATE STREAM {name} (k BIGINT, t BIGINT, w TEXT)")
            values = [
                [
                    None if rng.random() < 0.15 else int(rng.integers(0, 5)),
                    None if rng.random() < 0.1 else int(rng.integers(0, 20)),
                    None if rng.random() < 0.1 else "xyz"[rng.integers(0, 3)] * int(rng.integers(1, 4)),
                ]
                for _ in range(count)
            ]
            self.tables[place] = values
            k, t, w = zip(*[[1, 1, "x"]] * OLDER, *values, strict=True)
            self.soup.push(name, pa.table({"k": pa.array(k, pa.int64()), "t": pa.array(t, pa.int64()), "w": w}))
        keys = " AND ".join(f"{first}.k = {second}.k" for first, second in itertools.pairwise(names))
        windows = ", ".join(f"{name} [ROWS {count}]" for name, count in zip(names, rows, strict=True))
        query = self.soup.register(f"SELECT a.k FROM {windows} WHERE {keys}")
        answer = self.soup.invoke(query)
        self.sources = answer._plan.sources
        self.reading: Reading = answer._reading

    def of(self, leaves: int) -> Reading:
        """The reading of a statement over the first streams."""
        return replace(self.reading, matches=self.reading.matches[:leaves])


def col(place: int, index: int) -> AttributeRef:
    """A column of a leaf."""
    names = {K: "k", T: "t", W: "w", ID_INDEX: "_id", TIME_INDEX: "_time"}
    types = {K: BIGINT, T: BIGINT, W: TEXT, ID_INDEX: BIGINT, TIME_INDEX: TIMESTAMP}
    return AttributeRef(types[index], index, names[index], place)


def compare(name: str, left: Expr, right: Expr) -> Expr:
    """A condition."""
    return Call(BOOLEAN, name, (left, right))


def number(value: int) -> Expr:
    """A constant."""
    return Literal(BIGINT, value)


class Trees:
    """Random trees of joins over the first `leaves` streams."""

    def __init__(self, rng: random.Random, sources: tuple[Source, ...]) -> None:
        self.rng = rng
        self.sources = sources

    def tree(self, places: list[int]) -> Node:
        """A tree whose leaves are these places, in this order."""
        rng = self.rng
        if len(places) == 1:
            source: Node = self.sources[places[0]]
            return Filter(source, self._alone(places)) if rng.random() < 0.15 else source
        if len(places) > 2 and rng.random() < 0.2:
            return self._join([self.tree([place]) for place in places])
        cut = rng.randint(1, len(places) - 1)
        left, right = self.tree(places[:cut]), self.tree(places[cut:])
        node: Node = self._join([left, right]) if rng.random() < 0.2 else self._partners(left, right)
        if rng.random() < 0.15:
            node = Filter(node, self._alone([leaf.place for leaf in node.leaves]))
        return node

    def _join(self, inputs: list[Node]) -> Node:
        keys, rest = [], []
        for left, right in itertools.pairwise(inputs):
            keys.append(self._factor("eq", left, right))
        if self.rng.random() < 0.3:
            rest.append(self._across(inputs[0], inputs[-1]))
        return Join(tuple(inputs), tuple(keys), (), tuple(rest))

    def _partners(self, left: Node, right: Node) -> Node:
        rng = self.rng
        kind = rng.choice(KINDS)
        keys = [self._factor("eq", left, right) for _ in range(rng.choice([0, 1, 1, 1, 2]))]
        bands = [self._factor(rng.choice(["lt", "le", "gt", "ge"]), left, right) for _ in range(rng.choice([0, 0, 1]))]
        rest = [self._across(left, right)] if rng.random() < 0.4 else []
        member = None
        if kind in (JoinKind.ASOF, JoinKind.ASOF_LEFT):
            bands = [self._factor(rng.choice(["lt", "le", "gt", "ge"]), left, right, column=T)]
        if kind is JoinKind.NOT_IN:
            member = self._leaf(left, K), self._leaf(right, K)
            keys, bands, rest = (keys, bands, rest) if rng.random() < 0.6 else ([], [], [])
            keys = [replace(f, left=self._leaf(left, T), right=self._leaf(right, T)) for f in keys]
        return PartnerJoin(left, right, kind, tuple(keys), tuple(bands), tuple(rest), member)

    def _factor(self, name: str, left: Node, right: Node, column: int | None = None) -> PairFactor:
        index = column if column is not None else self.rng.choice([K, K, W] if name == "eq" else [T])
        first, second = self._leaf(left, index), self._leaf(right, index)
        if name != "eq" and self.rng.random() < 0.3:
            flipped = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}[name]
            return PairFactor(flipped, second, first)
        return PairFactor(name, first, second)

    def _across(self, left: Node, right: Node) -> Expr:
        rng = self.rng
        first, second = self._leaf(left, T), self._leaf(right, T)
        column = rng.choice([first, second])
        return rng.choice(
            [
                compare("lt", first, Call(BIGINT, "add", (second, number(3)))),
                compare("gt", column, number(6)),
                Call(BOOLEAN, "or", (compare("lt", first, number(9)), compare("ge", second, number(9)))),
            ]
        )

    def _alone(self, places: list[int]) -> Expr:
        column = col(self.rng.choice(places), T)
        return self.rng.choice([compare("gt", column, number(5)), Call(BOOLEAN, "is_null", (column,))])

    def _leaf(self, node: Node, index: int) -> AttributeRef:
        return col(self.rng.choice(node.leaves).place, index)


def outputs_of(node: Node) -> list[Output]:
    """All columns of all leaves, and their IDs and times."""
    columns = [col(leaf.place, index) for leaf in node.leaves for index in (ID_INDEX, K, T, W, TIME_INDEX)]
    return [Output(f"c{at}", column) for at, column in enumerate(columns)]


def answered(plan: Node, reading: Reading, at_once: int = 50) -> list[tuple[Any, ...]]:
    """The rows of a plan."""
    reading.begin()
    columns: list[list[Any]] = [[] for _ in plan.schema]
    for part in rows_of(plan, reading).columns([output.expr for output in plan.schema], at_once):
        for values, column in zip(columns, part, strict=True):
            values += column.to_arrow().to_pylist()
    return list(zip(*columns, strict=True))


def shown(node: Node, rows: list[Row], tables: Tables) -> list[tuple[Any, ...]]:
    """The rows of the oracle with the columns of `outputs_of`, without times."""
    result = []
    for row in rows:
        values: list[Any] = []
        for leaf in node.leaves:
            at = row[leaf.place]
            values += [None] * 4 if at is None else [OLDER + at, *tables[leaf.place][at]]
        result.append(tuple(values))
    return result


def without_times(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows without the times, which are NULL exactly where the IDs are."""
    for row in rows:
        assert [value is None for value in row[0::5]] == [value is None for value in row[4::5]]
    return [tuple(value for at, value in enumerate(row) if at % 5 != 4) for row in rows]


def by_all_ways(plan: Node, reading: Reading) -> list[list[tuple[Any, ...]]]:
    """The rows of a plan by each way of showing an answer that accepts it."""
    results = []
    for way in ANSWER.serving(plan):
        reading.begin()
        case = AnswerCase(plan, reading, 5, 1 << 20, rows_of)
        if not way.accepts(case):
            continue
        rows = list[tuple[Any, ...]]()
        try:
            for part in way.run(case):
                if isinstance(part, Message):
                    form = form_of(plan.schema)
                    assert form is not None
                    batch = read(part.gathered(), form.schema)
                    batch.validate(full=True)
                    columns = [column.to_pylist() for column in batch.columns]
                else:
                    columns = [column.to_arrow().to_pylist() for column in part]
                rows += zip(*columns, strict=True)
        except TryNext:
            assert way.gives_up
            continue
        results.append(rows)
    return results


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a few rows, so that each answer has many."""
    for module in (partner_rows, composition):
        monkeypatch.setattr(module, "_ROWS", 4)
    monkeypatch.setattr(join_inputs, "_GROUP_ROWS", 5)


def _sizes(rng: random.Random) -> tuple[int, ...]:
    return tuple(rng.choice([1, 7, 12]) if rng.random() < 0.3 else rng.randint(5, 13) for _ in range(4))


@pytest.mark.seeded("rows of the left without a partner are lost between two pieces")
@pytest.mark.seeded("rows with a missing tuple come first")
@pytest.mark.seeded("NOT IN ignores a NULL of the set")
@pytest.mark.seeded("NOT IN over an empty set has no row")
@pytest.mark.seeded("a pair makes a partner before its other conditions are tested")
@pytest.mark.seeded("ASOF takes the first of equally close partners")
@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("seed", swept(range(6), fast=(1,)))
def test_trees_of_joins_have_the_rows_of_nested_loops(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    for name in ("_PAIRS", "_FEW"):
        monkeypatch.setattr(existence, name, 2 if seed % 2 else 1_000)  # 2: most partners are searched
    for turn in range(4):
        streams = Streams(100 * seed + turn, _sizes(rng))
        trees = Trees(rng, streams.sources)
        for _ in range(10):
            leaves = rng.randint(2, 4)
            node = trees.tree(list(range(leaves)))
            whole = streams.of(leaves)
            if isinstance(node, Source):
                continue
            expected = shown(node, rows_by_looking(node, streams.tables), streams.tables)
            plan = Project(node, tuple(outputs_of(node)))
            for limits in (TINY, JoinLimits()):
                reading = replace(whole, joins=limits)
                for rows in by_all_ways(plan, reading):
                    assert without_times(rows) == expected, node
                assert reading.budget.joined == 0, node
            limit, skip = rng.randint(0, 6), rng.randint(0, 4)
            for cut in by_all_ways(Limit(plan, limit, skip), whole):
                assert without_times(cut) == expected[skip : skip + limit], node


@pytest.mark.usefixtures("small_pieces")
def test_rows_are_sorted_told_apart_and_counted() -> None:
    rng = random.Random(9)
    for turn in range(12):
        streams = Streams(turn, _sizes(rng))
        node = Trees(rng, streams.sources).tree([0, 1, 2])
        if isinstance(node, Source):
            continue
        rows = shown(node, rows_by_looking(node, streams.tables), streams.tables)
        plan = Project(node, tuple(outputs_of(node)))
        reading = replace(streams.of(3), joins=TINY)
        key = col(node.leaves[-1].place, T)
        at = 4 * (len(node.leaves) - 1) + 2
        by_key = sorted(rows, key=lambda row: (row[at] is None, -(row[at] or 0)))
        assert without_times(answered(Sort(plan, (OrderKey(key, descending=True),)), reading)) == by_key
        distinct = answered(Distinct(Project(node, (Output("t", key),))), reading)
        assert distinct == list(dict.fromkeys((row[at],) for row in rows))
        count = Measure("count", (), BIGINT)
        groups = Aggregate(node, (), (count,))
        assert answered(Project(groups, groups.schema), reading) == [(len(rows),)]
        assert reading.budget.joined == 0


def test_a_product_is_refused_with_the_number_of_its_pairs() -> None:
    streams = Streams(1, (9, 14, 6, 11))
    left, right = streams.sources[:2]
    node = PartnerJoin(left, right, JoinKind.LEFT, rest=(compare("lt", col(0, T), col(1, T)),))
    plan = Project(node, tuple(outputs_of(node)))
    with pytest.raises(ResourceExhausted, match=r"9 \* 14 = 126 pairs") as refused:
        answered(plan, replace(streams.of(2), joins=JoinLimits(pairs=125)))
    assert refused.value.reason == "JOIN_BUDGET"
    assert streams.reading.budget.joined == 0
    assert answered(plan, replace(streams.of(2), joins=JoinLimits(pairs=126)))
    few = replace(streams.of(2), joins=JoinLimits(pairs=125, first=2))
    assert len(answered(Limit(plan, 1), few)) == 1, "the first rows need few pairs"


@pytest.mark.seeded("a search of partners takes < for <=")
@pytest.mark.parametrize("kind", swept([JoinKind.SEMI, JoinKind.ANTI, JoinKind.NOT_IN], fast=(2,)))
def test_rows_with_one_key_need_no_pairs_to_find_whether_there_is_a_partner(
    kind: JoinKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_PAIRS", "_FEW"):
        monkeypatch.setattr(existence, name, 1)
    streams = Streams(3, (40, 50))
    left, right = streams.sources
    member = (col(0, T), col(1, T)) if kind is JoinKind.NOT_IN else None
    equal = PairFactor("eq", col(0, K), col(1, K))
    after, before = PairFactor("ge", col(1, T), col(0, T)), PairFactor("lt", col(1, T), col(0, K))
    bands = [(), (after,), (before,), (after, before)]
    bands += [(PairFactor(name, col(0, T), col(1, T)),) for name in ("lt", "le", "gt", "ge")]
    for keys, near in itertools.product([(equal,), ()], bands):
        node = PartnerJoin(left, right, kind, keys, near, member=member)
        expected = shown(node, rows_by_looking(node, streams.tables), streams.tables)
        reading = replace(streams.reading, joins=JoinLimits(pairs=200))
        assert without_times(answered(Project(node, tuple(outputs_of(node))), reading)) == expected, (keys, near)
        assert reading.budget.joined == 0


@pytest.mark.usefixtures("small_pieces")
def test_a_reader_that_leaves_holds_no_bytes() -> None:
    streams = Streams(4, (12, 13, 9))
    trees = Trees(random.Random(4), streams.sources)
    for _ in range(20):
        node = trees.tree([0, 1, 2])
        plan = Project(node, tuple(outputs_of(node)))
        reading = replace(streams.reading, joins=TINY)
        for way in ANSWER.serving(plan):
            case = AnswerCase(plan, reading, 2, 1 << 20, rows_of)
            if way.accepts(case):
                parts = iter(way.run(case))
                next(parts, None)
                del parts
                assert reading.budget.joined == 0, (way.name, node)


def test_a_failed_condition_makes_no_partner_and_is_counted() -> None:
    streams = Streams(2, (3, 3))
    left, right = streams.sources
    high = Call(BIGINT, "add", (col(0, T), number(2**63 - 1)))
    node = PartnerJoin(left, right, JoinKind.LEFT, rest=(compare("gt", high, col(1, T)),))
    reading = replace(streams.reading)
    rows = answered(Project(node, tuple(outputs_of(node))), reading)
    valued = [row for row in streams.tables[0] if row[T]]
    right_values = [row for row in streams.tables[1] if row[T] is not None]
    assert reading.join_errors >= len(valued) * len(right_values) > 0
    assert [row[0] for row in rows if row[5] is None][: len(valued)]
