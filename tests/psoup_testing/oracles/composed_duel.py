"""Random histories with statements that contain others: every answer against DuckDB and the naive model.

The events are those of `JoinDuel`. A statement is run in DuckDB over the tables of its windows' tuples.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from psoup.answer.invoke import Answer
from psoup_testing.histories.composed import FEATURES, Composed, Composer
from psoup_testing.histories.composed_items import Named
from psoup_testing.histories.composed_kinds import kinds_of
from psoup_testing.histories.composed_parts import Select
from psoup_testing.histories.windows import WINDOW_KINDS, Window, draw_window
from psoup_testing.oracles.join_duel import BASE, SPAN, JoinDuel
from psoup_testing.oracles.model import Range


class ComposedDuel(JoinDuel):
    """A duel over statements with some features. `kinds` counts the compared answers with rows by feature."""

    optimized = True
    refusals = ("WIDER_THAN", "DUPLICATE", "TOO_MANY_SOURCES")

    def __init__(self, seed: int, path: Path, features: frozenset[str] = FEATURES, **history: bool) -> None:
        self.features = features
        self.kinds = Counter[str]()
        super().__init__(seed, path, **history)

    def _drawn(self) -> Any:
        return Composer(
            self.make, len(self.models), self.timed, BASE, SPAN, self.features, frozenset(self.extra)
        ).draw()

    def _registered(self, query: Any) -> int:
        return self.soup.register(query.sql())

    def _compare(self, query_id: int, query: Any) -> None:
        before = self.nonempty
        super()._compare(query_id, query)
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
        told = [(part.begin, part.end, part.truncated, part.idle) for part in completeness.sources]
        sources = zip(ranges, out, strict=True)
        expected = [(range_.begin, range_.end, range_.truncated, idle) for range_, idle in sources]
        assert Counter(told) == Counter(expected), f"{completeness}\n{about}"
        assert completeness.errors == answer.errors == 0, about
        assert all(completeness.now == range_.now for range_ in ranges), f"{completeness}\n{about}"
        later = any(range_.end is not None and range_.now is not None and range_.end > range_.now for range_ in ranges)
        assert not (completeness.final and (later or any(out))), f"{completeness}\n{about}"
        self.idled += any(out)


def _steps(query: Composed) -> tuple[Any, ...]:
    return query.statement.steps if isinstance(query.statement, Select) else ()
