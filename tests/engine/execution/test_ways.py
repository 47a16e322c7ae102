"""Every way of a step gives the same rows on every case that it accepts, and each way is taken by some case.

a question ─> the steps that answer it ─> each case: all ways that accept it are run, and their results compared
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.execution.aggregate.window_case import Ends, WindowCase
from psoup.execution.join import parallel_join, small_join, small_pairs
from psoup.execution.join.join_case import JoinCase, Pieces
from psoup.execution.plan import rows_of
from psoup.execution.rows.answer_case import AnswerCase
from psoup.execution.rows.record_batch import Message, form_of, read
from psoup.execution.rows.source_rows import Reading
from psoup.execution.ways import ANSWER, BUCKETS, COUNT, GROUPS, JOIN, STEPS, WINDOW
from psoup.expressions.tree import ID_INDEX, AttributeRef, source_of
from psoup.local import LocalPSoup
from psoup.model import BIGINT
from psoup.plan.nodes import Join, JoinKind, Node, PartnerJoin, Project
from psoup.plan.way import TryNext, Ways, always
from psoup.values.columns import Column
from psoup.work.clock import VirtualClock
from psoup_service.host.runner import TaskPool
from psoup_testing.histories.histories import EAGER

ROWS = 400
WINDOWS = (
    "r [ROWS 390], s [ROWS 333]",
    "r [ROWS 60], s [ROWS 90]",
    "r [ROWS 5], s [ROWS 390]",
    "r [ROWS 390], s [ROWS 5]",
)
JOINS = (
    "SELECT r.k, s.k AS l, s.f, r._id FROM {} WHERE r.k = s.k",
    "SELECT r.k, s.up, r._id, s._id AS j FROM {} WHERE r.k = s.k AND r.n > 2 LIMIT 20 OFFSET 3",
    "SELECT r.k, s.w FROM {} WHERE r.w = s.w AND r.n = s.n",
    "SELECT r.n, s.n AS m, r._id FROM {} WHERE r.n = s.n",
    "SELECT r.k, s.k AS l FROM {} WHERE s.up BETWEEN r.up - 3 AND r.up",
    "SELECT r.k, s.k AS l FROM {} WHERE s.n BETWEEN r.n - 1 AND r.n AND r.k > 150",
    "SELECT r.k, s.k AS l FROM {} WHERE r.n = s.n AND s.up >= r.up AND s.up < r.up + 20",
    "SELECT r.k + s.k AS c FROM {} WHERE r.k = s.k AND 100 / (r.n - s.n) > 9",
    "SELECT count(*) AS c FROM {} WHERE r.k = s.k",
    "SELECT count(*) AS c FROM {} WHERE r.k + 1 = s.k - 2",
    "SELECT r.n, count(*) AS c, sum(s.k) AS b FROM {} WHERE r.k = s.k GROUP BY r.n",
    "SELECT r.far, s.n FROM {} WHERE r.far = s.far",
    "SELECT count(*) AS c FROM {} WHERE r.far = s.far",
)
KEPT = (
    "SELECT r.up, s.up AS v, r._id FROM {} WHERE r.up = s.up",
    "SELECT count(*) AS c FROM {} WHERE r.up = s.up",
)
SINGLE = (
    "SELECT k, n, _id FROM r [ROWS {}] WHERE n > 2",
    "SELECT k + n AS c FROM r [ROWS {}] WHERE n > 2 ORDER BY k, _id LIMIT 7",
    "SELECT count(*) AS c, sum(k) AS a, max(up) AS b FROM r [ROWS {}] WHERE n > 2",
    "SELECT count(*) AS c FROM r [ROWS {}] WHERE n > 2",
    "SELECT sum(k + n) AS c, avg(k) AS a FROM r [ROWS {}] WHERE n > 2",
    "SELECT n, sum(k) AS c, min(w) AS b FROM r [ROWS {}] WHERE k < 100 GROUP BY n",
    "SELECT sum(k) / 2 AS c, count(*) + 1 AS d FROM r [ROWS {}] WHERE n > 2",
    "SELECT median(k) AS c FROM r [ROWS {}] WHERE n > 2",
    "SELECT hop(make_timestamp(k), INTERVAL 6 MICROSECONDS, INTERVAL 20 MICROSECONDS) AS t, n, sum(k) AS c, max(up) AS"
    " b FROM r [ROWS {}] GROUP BY t, n",
    "SELECT hop(make_timestamp(n), INTERVAL 2 MICROSECONDS, INTERVAL 6 MICROSECONDS) AS t, median(k) AS c"
    " FROM r [ROWS {}] WHERE n > 2 GROUP BY t",
)


def _columns(rng: np.random.Generator, rows: int) -> pa.Table:
    keys = rng.integers(0, 200, rows)
    return pa.table(
        {
            "k": pa.array(keys),
            "n": pa.array(rng.integers(0, 9, rows), mask=rng.random(rows) < 0.1),
            "up": pa.array(np.sort(rng.integers(0, 900, rows))),
            "w": pa.array([["a", "b", "words of more than eight bytes"][at] for at in rng.integers(0, 3, rows)]),
            "f": pa.array(rng.random(rows) < 0.5),
            "far": pa.array(keys * 10**12),
        }
    )


class Compared:
    """All ways of each case run and compared. `ran`, `took`: names of ways with their steps."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.ran, self.took = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        self._take, self._busy = Ways.take, False
        compared = self

        def take(ways: Ways[Any, Any], node: object, case: Any) -> Any:
            return compared._taken(ways, node, case)

        patch.setattr(Ways, "take", take)

    def _taken(self, ways: Ways[Any, Any], node: object, case: Any) -> Any:
        """Compare the ways that accept a case, unless it is a part of a way that is being compared."""
        if not self._busy:
            self._busy = True
            try:
                self._compare(ways, node, case)
            finally:
                self._busy = False
        return self._take(ways, node, case)

    def _compare(self, ways: Ways[Any, Any], node: object, case: Any) -> None:
        results = dict[str, object]()
        for way in ways.serving(node):
            own = _again(case)
            if way.accepts(own):
                try:
                    results[way.name] = _plain(ways, own, way.run(own))
                except TryNext:
                    assert way.gives_up, way.name
                    continue
                self.ran[ways.step, way.name] += 1
        first, *others = results.items()
        self.took[ways.step, first[0]] += 1
        for name, result in others:
            assert result == first[1], (ways.step, node, first[0], name)


def _again(case: Any) -> Any:
    """The same case, as if no way had been tried."""
    if isinstance(case, AnswerCase):
        return replace(case, reading=replace(case.reading))
    if isinstance(case, JoinCase):
        return JoinCase(case.node, replace(case.reading), case.ways, case.few, case.rest)
    if isinstance(case, WindowCase):
        return WindowCase(case.view, case.clause, case.low, case.high, case.plan, case.snapshot, case.budget)
    return replace(case, rows=replace(case.rows, reading=replace(case.rows.reading)), hold=lambda size: None)


def _plain(ways: Ways[Any, Any], case: Any, result: Any) -> object:
    """The result of a way as values that are equal if the rows are."""
    if ways is ANSWER:
        return _rows(case, result), case.reading.errors, case.reading.join_errors
    if ways is JOIN:
        return _ids(result), result.errors
    if ways is COUNT:
        return result
    if ways in (GROUPS, BUCKETS):
        table, size = result
        return {place: column.to_arrow().to_pylist() for place, column in table.items()}, size
    assert ways is WINDOW
    return _window(case, result)


def _rows(case: AnswerCase, parts: Iterator[Message | list[Column]]) -> list[list[object]]:
    rows: list[list[object]] = [[] for _ in case.plan.schema]
    for part in parts:
        if isinstance(part, Message):
            columns = read(part.gathered(), _schema(case)).columns
        else:
            case.reading.count(part)
            columns = [column.to_arrow() for column in part]
        for own, column in zip(rows, columns, strict=True):
            own += column.to_pylist()
    return rows


def _schema(case: AnswerCase) -> pa.Schema:
    form = form_of(case.plan.schema)
    assert form is not None
    return form.schema


def _ids(pieces: Pieces) -> list[tuple[int, ...]]:
    """The tuple IDs of joined rows: positions count the rows of a way's own sides."""
    reference, rows = AttributeRef(BIGINT, ID_INDEX, "_id"), list[tuple[int, ...]]()
    for piece in pieces:
        columns = [
            side.gather([reference], positions)[ID_INDEX].values.tolist()
            for side, positions in zip(pieces.sides, piece, strict=True)
        ]
        rows += zip(*columns, strict=True)
    pieces.close()
    return rows


def _window(case: WindowCase, ends: Ends) -> object:
    """The rows of the plan, and its figures, from what was read of the window."""
    config = case.snapshot.config
    reading = Reading([ends.matches], None, config.texts, case.budget, config.sort_rows, between=ends.between)
    columns = list(rows_of(case.plan, reading).columns([output.expr for output in case.plan.schema], 10**6))
    return [[column.to_arrow().to_pylist() for column in part] for part in columns], reading.errors


def _questions(soup: LocalPSoup) -> Sequence[int]:
    joins = [soup.register(form.format(window)) for form in JOINS for window in WINDOWS]
    kept = [soup.register(form.format(WINDOWS[0]), keep_pairs=True) for form in KEPT]
    single = [soup.register(form.format(rows)) for form in SINGLE for rows in (390, 200, 30)]
    return [*joins, *kept, *single]


def _with_partners(soup: LocalPSoup, query: int) -> Iterator[tuple[Node, Reading]]:
    """Plans with the sources of an inner join by one key, and joins of each kind in its place."""
    answer = soup.invoke(query)
    project = answer._plan
    assert isinstance(project, Project) and isinstance(project.input, Join)
    left, right = project.input.inputs
    for kind in (JoinKind.LEFT, JoinKind.FULL, JoinKind.SEMI, JoinKind.ANTI):
        node = PartnerJoin(left, right, kind, project.input.keys)
        outputs = [output for output in project.outputs if not kind.filters or source_of(output.expr) == 0]
        yield Project(node, tuple(outputs)), answer._reading


@pytest.mark.seeded("a way leaves a row out that another way has")
def test_all_ways_give_the_same_rows_on_all_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in (
        (small_join, "SMALL", 120),
        (parallel_join, "SMALL", 120),
        (parallel_join, "_PLACES", 0),
        (parallel_join, "_SPARE", 8),
        (small_pairs, "_SMALL", 300),
    ):
        monkeypatch.setattr(module, name, value)
    pool, rng = TaskPool(2), np.random.default_rng(3)
    soup = LocalPSoup(EngineConfig(chunk_rows=64, shape=EAGER), VirtualClock(100), run=pool)
    for stream in "rs":
        soup.execute(f"CREATE STREAM {stream} (k BIGINT, n BIGINT, up BIGINT, w TEXT, f BOOLEAN, far BIGINT)")
    queries = _questions(soup)
    compared = Compared(monkeypatch)
    for _ in range(ROWS // 50):
        for stream in "rs":
            soup.push(stream, _columns(rng, 50))
        soup.maintain()
    for query in queries:
        for _ in range(4):
            soup.invoke(query).to_table()
    for plan, reading in _with_partners(soup, queries[1]):
        for part in ANSWER.take(plan, AnswerCase(plan, reading, 50, 1 << 20, rows_of)):
            assert part is not None
    pool.close()
    every = {(step.step, way.name) for step in STEPS for way in step.ways}
    assert every - compared.ran.keys() == set(), "no case was accepted by these"
    assert every - compared.took.keys() == set(), "no case was answered by these"


def test_the_last_way_of_a_step_takes_everything() -> None:
    """So a choice always ends."""
    for step in STEPS:
        last = step.ways[-1]
        assert (last.serves, last.accepts, last.gives_up) == (always, always, "")
        assert len({way.name for way in step.ways}) == len(step.ways)


def test_a_way_has_the_name_of_its_module() -> None:
    """So the name that EXPLAIN prints is the file to open."""
    for step in STEPS:
        for way in step.ways:
            assert way.run.__module__.split(".")[-1] == way.name


EXPLAINED = {
    "SELECT r.k, s.up FROM r, s WHERE r.k = s.k": [
        "small_join, else join_messages",
        "small_pairs, else key_join, else routed_join",
    ],
    "SELECT r.k + s.k AS c FROM r, s WHERE r.k = s.k AND r.n < s.n": ["computed_rows", "key_join, else routed_join"],
    "SELECT r.k, s.k AS l, t.k AS m FROM r, s, r t WHERE r.k = s.k AND s.n = t.n": ["join_messages", "routed_join"],
    "SELECT sum(k) AS c FROM r WHERE n > 2": ["single_row, else computed_rows", "window_folds, else window_rows"],
    "SELECT k, n FROM r WHERE n > 2": ["source_messages"],
    "SELECT hop(make_timestamp(k), INTERVAL 2 SECONDS, INTERVAL 4 SECONDS) AS t, sum(n) AS c FROM r GROUP BY t": [
        "computed_rows",
        "combined_panes",
        "window_folds, else window_rows",
    ],
}


def test_explain_names_the_ways_that_an_invocation_tries() -> None:
    soup, rng = LocalPSoup(EngineConfig(chunk_rows=64, shape=EAGER), VirtualClock(100)), np.random.default_rng(3)
    for stream in "rs":
        soup.execute(f"CREATE STREAM {stream} (k BIGINT, n BIGINT, up BIGINT, w TEXT, f BOOLEAN, far BIGINT)")
    queries = {sql: soup.register(sql) for sql in EXPLAINED}
    for stream in "rs":
        soup.push(stream, _columns(rng, ROWS))
    soup.maintain()
    for sql, expected in EXPLAINED.items():
        lines = [line.split("| by ")[1] for line in soup.explain(queries[sql]).lines() if "| by " in line]
        assert lines == expected, sql
