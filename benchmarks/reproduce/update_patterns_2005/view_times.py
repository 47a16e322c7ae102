"""Times and sizes of the result views of the update-pattern queries, and of PSoup's answers to the same queries.

A view is filled with a window of tuples. Then three stretches of a twentieth of the window (2,000 to 5,000 units) are
timed, the strategies in turns. PSoup is timed for pieces of 1,000 tuples (`product`). After the stretches the views,
PSoup's answer and the view that it keeps are compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.reproduce.emulators.update_patterns.buffers import Array
from benchmarks.reproduce.emulators.update_patterns.loops import DistinctLoop
from benchmarks.reproduce.emulators.update_patterns.plans import Query
from benchmarks.reproduce.emulators.update_patterns.views import Strategy, View
from benchmarks.reproduce.processor_time import milliseconds
from benchmarks.reproduce.update_patterns_2005.product import asked, kept
from benchmarks.reproduce.update_patterns_2005.trace import COMMON, Trace, trace
from benchmarks.tool.measure import Sample
from benchmarks.tool.run import Run

PRODUCT = "PSoup, asked each 1,000 tuples"
KEPT = "PSoup, kept view"
COMPARED = "PSoup, compared each 1,000 tuples"
BY_HAND = "by hand"
_STRETCHES, _STRETCH, _LONGEST = 3, 2_000, 5_000
"""The number of timed stretches, and the fewest and most units of time of each. At a window of 200,000 a slow strategy
takes seconds for 1,000 tuples."""


@dataclass(frozen=True, slots=True)
class Question:
    """A query of the paper. `statement`: the same for PSoup, with `{window}`; `by_pair`: DISTINCT by source and
    destination. `chosen`: the protocol of each link, None: all. `compared`: PSoup cannot keep the view, but compares
    answers."""

    query: Query
    chosen: Sequence[int | None]
    statement: str
    by_pair: bool = False
    compared: bool = False

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
            given = question.statement, len(question.chosen), tuples, window, run.of(9, 5, 2)
            measured.times[f"{PRODUCT}{end}"][window], answer = asked(*given)
            measured.rows[end][window] = len(answer)
            keys = {name: view.rows()[:, 0] for name, view in by_case[end].items()}
            ours = COMPARED if question.compared else KEPT
            measured.times[f"{ours}{end}"][window], keys[ours] = kept(*given, compared=question.compared)
            _check(window, keys, answer)
    return measured


def _check(window: int, views: Mapping[str, Array], answer: Array) -> None:
    """Raise AssertionError if a view has other keys than PSoup's answer."""
    wanted = np.sort(answer)
    for name, keys in views.items():
        if not np.array_equal(np.sort(keys), wanted):
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
