"""Random histories with composed statements: every answer against DuckDB and the naive model.

`JoinDuel` plays the events. A statement is run in DuckDB over the tables of its windows' tuples.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from psoup.answer.invoke import Answer
from psoup.errors import PSoupError
from psoup.execution.ways import STEPS
from psoup_testing.histories.composed_items import Named
from psoup_testing.histories.composed_kinds import kinds_of
from psoup_testing.histories.composed_parts import Select
from psoup_testing.histories.composer import FEATURES, Composed, Composer
from psoup_testing.histories.windows import WINDOW_KINDS, Window, draw_window
from psoup_testing.oracles.duckdb_answers import difference
from psoup_testing.oracles.join_duel import BASE, SPAN, JoinDuel
from psoup_testing.oracles.model import Range
from psoup_testing.oracles.questions import again, plain_rows, rows_of, same_bits
from psoup_testing.oracles.ways import without

_CONSTANT = re.compile(r"\w (?:<|<=|>|>=|=|<>) (-?\d+)\b(?! =)")
"""A whole number that a column is compared with."""


class ComposedDuel(JoinDuel):
    """A duel over statements with some features. `kinds` counts the compared answers with rows by feature."""

    optimized = True
    refusals = ("WIDER_THAN", "DUPLICATE", "TOO_MANY_SOURCES")

    def __init__(self, seed: int, path: Path, features: frozenset[str] = FEATURES, **history: bool) -> None:
        self.features = features
        self.kinds = Counter[str]()
        self.tables = 0
        super().__init__(seed, path, **history)

    def _drawn(self) -> Any:
        return Composer(
            self.make, len(self.models), self.timed, BASE, SPAN, self.features, frozenset(self.extra)
        ).draw()

    def _registered(self, query: Any) -> int:
        """Register a statement, sometimes with more of its form: they have another constant in one place."""
        sql, make = query.sql(), self.make
        places = [*_CONSTANT.finditer(sql)]
        if not places or not make.likely(25):
            return self.soup.register(sql)
        place = make.pick(places)
        template, value = f"{sql[: place.start(1)]}?{sql[place.end(1) :]}", int(place[1])
        values = pa.table({"value": pa.array([value + 1, value, value])})
        try:
            queries = self.soup.register_many(template, values)
        except PSoupError as problem:
            refused = "a parameter outside of" in str(problem) or any(word in problem.reason for word in self.refusals)
            assert refused, f"{problem}\n{template}"
            return self.soup.register(sql)
        self._check_table(queries)
        self.soup.unregister_many([queries[0], queries[2]])
        return int(queries[1])

    def _check_ways(self, query_id: int) -> None:
        """The answer has the same bits without one of the ways of answering."""
        step = self.make.pick([step for step in STEPS if len(step.ways) > 1])
        way = self.make.pick(step.ways[:-1])
        try:
            usual = again(self.soup.invoke, query_id, accept_truncation=True).to_table()
        except PSoupError:
            return
        with pytest.MonkeyPatch.context() as patch:
            without(patch, step, way.name)
            other = again(self.soup.invoke, query_id, accept_truncation=True).to_table()
        assert same_bits(usual, other), f"without {way.name}: {self.standing[query_id].sql()}"

    def _check_table(self, queries: Sequence[int]) -> None:
        """A table has the answer of each query of one form."""
        try:
            table = again(self.soup.invoke_table, queries, accept_truncation=True).to_table()
        except PSoupError:
            return
        for place, query in enumerate(queries):
            rows = table.filter(pc.equal(table["_query"], place)).drop(["_query"])
            alone = again(self.soup.invoke, query, accept_truncation=True)
            assert difference(rows_of(alone), plain_rows(rows)) is None, f"query {place} of {len(queries)}"
        self.tables += 1

    def _compare(self, query_id: int, query: Any) -> None:
        before = self.nonempty
        super()._compare(query_id, query)
        if self.make.likely(30):
            self._check_ways(query_id)
        if self.nonempty > before:
            self.kinds.update(kinds_of(query.statement))

    def _other_windows(self, query: Any) -> dict[str, Window]:
        """Windows for some of the streams in the statement's own FROM."""
        names = [step.item.alias for step in _steps(query) if isinstance(step.item, Named)]
        if not names or len(query.named) < 2:  # of one source the window is given without its name
            return {}
        window = draw_window(self.make, self.make.pick(WINDOW_KINDS), BASE, SPAN)
        return {self.make.pick(names): window}

    def _check_told(self, answer: Answer, ranges: list[Range], query: Any, about: str) -> None:
        """The completeness of an answer; its sources are compared as a set."""
        completeness, out = answer.completeness, self._left_out(query)
        parts = [(part.begin, part.end, part.truncated, part.idle) for part in completeness.sources]
        sources = zip(ranges, out, strict=True)
        expected = [(range_.begin, range_.end, range_.truncated, idle) for range_, idle in sources]
        assert Counter(parts) == Counter(expected), f"{completeness}\n{about}"
        assert completeness.errors == answer.errors == 0, about
        assert all(completeness.now == range_.now for range_ in ranges), f"{completeness}\n{about}"
        later = any(range_.end is not None and range_.now is not None and range_.end > range_.now for range_ in ranges)
        assert not (completeness.final and (later or any(out))), f"{completeness}\n{about}"
        self.idled += any(out)


def _steps(query: Composed) -> tuple[Any, ...]:
    return query.statement.steps if isinstance(query.statement, Select) else ()
