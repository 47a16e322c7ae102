"""The circumstances of a question: the clock, another NOW or window, and the budget of the read.

    invoke | ask | table | copies ──> Question ──> windows ──> the tuples that each source sees

A question holds neither the query nor the snapshot. A table puts one question to many queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from psoup.data.windows import refuse_truncation
from psoup.execution.select.history import refuse_before_history
from psoup.execution.select.window import Ranges, Reach, WindowChoice, instant, reach, reaches, windows_of
from psoup.model import WindowClause
from psoup.plan.standing_query import StandingQuery
from psoup.published.snapshot import StreamView
from psoup.sql import window_clause
from psoup.work.read_budget import ReadBudget


@dataclass(frozen=True, slots=True)
class Question:
    """A question, apart from its query. `now`: the clock, microseconds.

    `as_of` replaces NOW: no later tuple is in the answer. A table then has the versions that hold at `as_of`. `latest`:
    it has its newest versions, as in an earlier answer whose NOW was `as_of`. `window` replaces the registered window,
    or the windows of some sources. `accept_truncation`: whether a window may begin before the oldest tuple that the
    stream keeps.
    """

    now: int
    as_of: int | None = None
    window: WindowChoice | None = None
    accept_truncation: bool = False
    budget: ReadBudget = field(default_factory=ReadBudget)
    latest: bool = False

    def windows(self, query: StandingQuery) -> tuple[WindowClause, ...]:
        """The window of each source. Raises InvalidInput for a window of an unknown source."""
        return windows_of(query, self.window)

    def seen_of_one(self, view: StreamView, window: WindowClause) -> Reach:
        """The tuples that a query over one stream sees.

        Raises OutOfRange for an `as_of` after NOW, or a window that begins before the oldest kept tuple.
        """
        current = view.now(self.now)
        seen = reach(view, window, current, instant(current, self.as_of), self.as_of)
        if not self.accept_truncation:
            self._refuse_truncation(seen)
        return seen

    def seen(
        self, views: Sequence[StreamView], windows: tuple[WindowClause, ...], ranges: Ranges | None = None
    ) -> list[Reach]:
        """The tuples of each source of a join, all at one common NOW. Raises as `seen_of_one`.

        `ranges`: the ID ranges of an earlier answer at `as_of`, accepted even if tuples were dropped since.
        """
        seen = reaches(views, windows, self.now, self.as_of, ranges, latest=self.latest)
        if not self.accept_truncation and ranges is None:
            for part in seen:
                self._refuse_truncation(part)
        return seen

    def _refuse_truncation(self, part: Reach) -> None:
        refuse_before_history(part.view, self.as_of)
        refuse_truncation(part.view.spec.name, part.range)


def chosen_window(window: str | Mapping[str, str] | None) -> WindowChoice | None:
    """Parse the text of a window, or of the window of each source. None stays None."""
    if window is None or isinstance(window, str):
        return None if window is None else window_clause(window)
    return {name: window_clause(text) for name, text in window.items()}
