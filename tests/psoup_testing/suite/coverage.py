"""The cases that the runs of a test session met: factor kind x type, path of emission, form of column, kind of window.

    count(query, forms)   ->   ("factor x type", "between", "TEXT") += 1, ("type x form", "TEXT", "list") += 1, …

A full product of all dimensions has thousands of cells that say nothing, so pairs are counted; every pair of `required`
must be met, and a zero fails the test that asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from psoup.model import BOOLEAN, STREAMED
from psoup_testing.histories import expressions
from psoup_testing.histories.expressions import Expression
from psoup_testing.histories.predicates import FACTORS, Leaf
from psoup_testing.histories.queries import Query
from psoup_testing.histories.windows import WINDOW_KINDS

FORMS = ("row", "run", "list", "bitmap", "uncovered")
"""The forms of a kept column when it was asked for: open row, open run, sealed list, sealed bitmap, not at all."""
PATHS = ("dense", "sparse")
WAYS = ("arrival", "cover", "invocation", "restart")
"""Occasions of an evaluation: new tuples, old tuples whose results are kept, an answer, or a replay of the log."""
JUNCTIONS = ("and", "or", "not")

Cell = tuple[str, str, str]


class Coverage:
    """Counts of pairs."""

    def __init__(self) -> None:
        self.counts: Counter[Cell] = Counter()
        self.cases = 0
        self.refused: Counter[str] = Counter()

    def answered(self, query: Query, window_kind: str, forms: Sequence[str], older: bool) -> None:
        """Count a compared answer, whose query's columns were kept in these forms; `older`: tuples, than the query."""
        self.cases += 1
        if "uncovered" in forms:
            self._evaluated(query, "invocation")
        if older and any(form != "uncovered" for form in forms):
            self._evaluated(query, "cover")
        forms = [part for form in forms for part in form.split("+") if part in FORMS]
        for form in forms:
            self.counts["window x form", window_kind, form] += 1
        for leaf in _leaves(query):
            self.counts["factor x type", leaf.factor, leaf.about.value] += 1
            self.counts["factor x window", leaf.factor, window_kind] += 1
            for form in forms:
                self.counts["factor x form", leaf.factor, form] += 1
                self.counts["type x form", leaf.about.value, form] += 1

    def arrived(self, query: Query, form: str) -> None:
        """Count new tuples that met a standing query, whose matches went into a row (dense) or a run (sparse)."""
        self._evaluated(query, "arrival")
        for part in form.split("+"):
            path = {"row": "dense", "run": "sparse"}.get(part)
            if path is None:
                continue
            for leaf in _leaves(query):
                self.counts["factor x path", leaf.factor, path] += 1
                self.counts["type x path", leaf.about.value, path] += 1

    def restarted(self, query: Query) -> None:
        """Count a compared answer of what a start has evaluated anew."""
        self._evaluated(query, "restart")

    def _evaluated(self, query: Query, way: str) -> None:
        """Count the functions of a WHERE clause that was evaluated in one of the `WAYS`."""
        for name in _functions(query):
            self.counts["function x way", name, way] += 1

    def unseen(self) -> list[Cell]:
        """Functions and operators of the generator that were never evaluated in some way."""
        cells = [("function x way", name, way) for name in sorted(every_function()) for way in WAYS]
        return [cell for cell in cells if not self.counts[cell]]

    def missing(self) -> list[Cell]:
        """Required pairs that were never met."""
        return [cell for cell in required() if not self.counts[cell]]

    def report(self) -> list[str]:
        """The counts as lines of a table, the least met pair of every dimension first."""
        lines = [f"{self.cases} answers compared with DuckDB"]
        for dimension in dict.fromkeys(cell[0] for cell in required()):
            cells = [(self.counts[cell], cell) for cell in required() if cell[0] == dimension]
            count, fewest = min(cells)
            total = sum(number for number, _ in cells)
            lines.append(f"{dimension}: {len(cells)} pairs, {total} hits, least {fewest[1]} x {fewest[2]}: {count}")
        return lines


@lru_cache(4_096)
def _functions(query: Query) -> frozenset[str]:
    return frozenset[str]().union(*(leaf.condition.functions() for leaf in _leaves(query)))


def _leaves(query: Query) -> list[Leaf]:
    return [] if query.where is None else query.where.leaves()


def every_function() -> frozenset[str]:
    """The words and signs of all functions and operators that can be drawn."""
    forms = [form for kind in expressions.FORMS.values() for form in kind]
    return frozenset[str]().union(*(Expression(BOOLEAN, text).functions() for form in forms for text in form.spelled()))


def required() -> list[Cell]:
    """Every pair that makes sense."""
    cells: list[Cell] = []
    for factor, (wanted, _) in FACTORS.items():
        cells += [("factor x type", factor, kind.value) for kind in wanted]
    for factor in JUNCTIONS:
        cells += [("factor x type", factor, kind.value) for kind in STREAMED]
    factors = [*FACTORS, *JUNCTIONS]
    types = [kind.value for kind in STREAMED]
    cells += [("factor x path", factor, path) for factor in factors for path in PATHS]
    cells += [("type x path", kind, path) for kind in types for path in PATHS]
    cells += [("factor x form", factor, form) for factor in factors for form in FORMS]
    cells += [("type x form", kind, form) for kind in types for form in FORMS]
    cells += [("factor x window", factor, window) for factor in factors for window in WINDOW_KINDS]
    cells += [("window x form", window, form) for window in WINDOW_KINDS for form in FORMS]
    return cells


COVERAGE = Coverage()
"""The cases that this test process met."""
