"""Times and sizes of the result views of the update-pattern queries, and of PSoup's answers to the same queries.

A view is filled with a window of tuples. Then three stretches of a twentieth of the window (2,000 to 5,000 units) are
timed, the strategies in turns. PSoup keeps no view: its figure is for 1,000 tuples pushed, and one answer. Its windows
have rows in place of units, as a unit of time has one tuple. After the stretches all views and answers are compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from benchmarks.reproduce.emulators.update_patterns.buffers import Array
from benchmarks.reproduce.emulators.update_patterns.loops import DistinctLoop
from benchmarks.reproduce.emulators.update_patterns.plans import Query
from benchmarks.reproduce.emulators.update_patterns.views import Strategy, View
from benchmarks.reproduce.processor_time import milliseconds
from benchmarks.reproduce.update_patterns_2005.trace import COMMON, Trace, trace
from benchmarks.tool.measure import Sample
from benchmarks.tool.run import Run
from psoup.config import EngineConfig
from psoup.local import LocalPSoup

PRODUCT = "PSoup, asked each 1,000 tuples"
KEPT = "PSoup, kept view"
BY_HAND = "by hand"
_STRETCHES, _STRETCH, _LONGEST = 3, 2_000, 5_000
"""The number of timed stretches, and the fewest and most units of time of each. At a window of 200,000 a slow strategy
takes seconds for 1,000 tuples."""
_PIECE = 500
"""Units of time between PSoup's answers with two links: 1,000 tuples."""
_LOAD = 20_000
"""Units of time of a push that fills the window."""


@dataclass(frozen=True, slots=True)
class Question:
    """A query of the paper. `statement`: the same for PSoup, with `{window}`; `by_pair`: DISTINCT by source and
    destination. `chosen`: the protocol of each link, None: all."""

    query: Query
    chosen: Sequence[int | None]
    statement: str
    by_pair: bool = False

    def keys(self, trace: Trace) -> Array:
        """The attribute of each tuple that the query compares."""
        return (trace.pairs if self.by_pair else trace.sources)[: len(self.chosen)]

    def passes(self, trace: Trace) -> Array:
        """Which tuples the selection lets by."""
        rows = zip(trace.protocols, self.chosen, strict=False)
        return np.array([np.ones(len(row), np.bool_) if code is None else row == code for row, code in rows])


Cases = Mapping[str, tuple[Question, Sequence[Strategy]]]
"""Questions and the strategies for their views, by what their series have at the end of their names."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Series by window: `times`, milliseconds for 1,000 tuples; `stored` tuples; `rows` of the answers, by case."""

    times: Mapping[str, dict[int, float]]
    stored: Mapping[str, dict[int, float]]
    rows: Mapping[str, dict[int, float]]


def figures(run: Run, cases: Cases, windows: Sequence[int], common: float = COMMON) -> Figures:
    """Measure views and PSoup. `common`: the share of sources on all links."""
    measured = Figures(defaultdict(dict), defaultdict(dict), defaultdict(dict))
    for window in windows:
        stretch = min(max(window // 20, run.of(_STRETCH, _STRETCH, 20)), _LONGEST)
        tuples = trace(window + _STRETCHES * stretch, common=common)
        by_case = {end: _filled(*case, tuples, window) for end, case in cases.items()}
        views = {f"{name}{end}": view for end, some in by_case.items() for name, view in some.items()}
        spent: dict[str, list[float]] = {name: [] for name in views}
        for turn in range(1, 1 + _STRETCHES):
            for name, view in views.items():
                spent[name].append(milliseconds(partial(view.run, window + turn * stretch)))
        for name, view in views.items():
            measured.times[name][window] = 1e3 * Sample.of(spent[name]).low / (stretch * view.links)
            measured.stored[name][window] = view.stored
        for end, (question, _) in cases.items():
            spent_by_product, answer = _asked(question, tuples, window, run.of(9, 5, 2))
            measured.times[f"{PRODUCT}{end}"][window], measured.rows[end][window] = spent_by_product, len(answer)
            _check(window, by_case[end], answer)
    return measured


def _check(window: int, views: Mapping[str, View | DistinctLoop], answer: Array) -> None:
    """Raise AssertionError if a view is not PSoup's answer."""
    for name, view in views.items():
        if not np.array_equal(np.sort(view.rows()[:, 0]), np.sort(answer)):
            raise AssertionError(f"at a window of {window:,} the view of {name} is not the answer of PSoup")


def _filled(
    question: Question, strategies: Sequence[Strategy], tuples: Trace, window: int
) -> dict[str, View | DistinctLoop]:
    """A view by each strategy, and for DISTINCT a loop by hand, after the first window."""
    keys, passes = question.keys(tuples), question.passes(tuples)
    views: dict[str, View | DistinctLoop] = {
        strategy.name: View(question.query, strategy, keys, passes, window) for strategy in strategies
    }
    if question.query == Query.DISTINCT:
        views[BY_HAND] = DistinctLoop(keys[0], window)
    for view in views.values():
        view.fill()
    return views


def _asked(question: Question, tuples: Trace, window: int, repeats: int) -> tuple[float, Array]:
    """Milliseconds of PSoup for 1,000 tuples and one answer, and the keys of its last answer."""
    local = LocalPSoup(EngineConfig())
    for link in range(len(question.chosen)):
        local.execute(f"CREATE STREAM link{link} (src BIGINT NOT NULL, pair BIGINT NOT NULL, protocol BIGINT NOT NULL)")
    stop = tuples.sources.shape[1]
    step = max(2 * _PIECE // len(question.chosen), 1)
    timed = max(stop - repeats * step, 0)
    for start in range(0, timed, _LOAD):
        _push(local, question, tuples, start, min(start + _LOAD, timed))
    query = local.register(question.statement.format(window=f"[ROWS {window}]"))
    answer = local.invoke(query).to_table()
    spent = list[float]()

    def piece(start: int) -> None:
        nonlocal answer
        _push(local, question, tuples, start, min(start + step, stop))
        answer = local.invoke(query).to_table()

    for start in range(timed, stop, step):
        spent.append(milliseconds(partial(piece, start)))
    return Sample.of(spent).low, answer["key"].to_numpy()


def _push(local: LocalPSoup, question: Question, tuples: Trace, start: int, stop: int) -> None:
    for link in range(len(question.chosen)):
        columns = {"src": tuples.sources, "pair": tuples.pairs, "protocol": tuples.protocols}
        local.push(f"link{link}", pa.table({name: values[link, start:stop] for name, values in columns.items()}))
