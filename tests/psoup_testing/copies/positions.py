"""A client of answers without tuple IDs: it applies what it is told; an invocation says what it must hold then."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from psoup.answer.copies.answer_again import NOTHING, Compared, Unchanged, again
from psoup.answer.copies.id_intervals import Interval, check
from psoup.answer.invoke import invoke
from psoup.answer.question import Question
from psoup.local import LocalPSoup
from psoup_testing.oracles import questions


class PositionClient:
    """A client's rows of a query, in order, and the service's knowledge of them in its token."""

    def __init__(self, soup: LocalPSoup, query: int) -> None:
        self.soup, self.query = soup, query
        self.held = NOTHING
        self.rows: list[str] = []

    def ask(self, limit: int) -> Compared | Unchanged:
        """Ask what has changed, and apply the first `limit` new rows."""
        snapshot = self.soup.engine.snapshot()
        record = snapshot.query(self.query, self.soup.tenant)
        change = again(snapshot, record, self.held, Question(self.soup.clock.now(), accept_truncation=True))
        if isinstance(change, Unchanged):
            assert self.held.whole
            self.held = change.held if change.behind else self.held
            return change
        page = change.page(limit)
        check(page.removed)
        check(page.places)
        new = rows_of(page.rows)
        assert len(new) <= limit
        before = [] if change.anew else self.rows
        stay = [place for place in range(len(before)) if not within(place, page.removed)]
        count, moved = len(stay) + len(new), {to: before[place] for place, to in page.moved}
        here = {place for place, _ in page.moved}
        left, comes = iter([before[place] for place in stay if place not in here]), iter(new)
        self.rows = [
            moved[place] if place in moved else next(comes if within(place, page.places) else left)
            for place in range(count)
        ]
        self.held = change.first(page.end)
        assert self.held.rows == count
        assert self.held.whole == (page.left == 0)
        return change


def within(place: int, intervals: Iterable[Interval]) -> bool:
    return any(low <= place < high for low, high in intervals)


def rows_of(table: pa.Table) -> list[str]:
    """Rows as texts: NaN is NaN, and -0.0 is not 0.0."""
    return list(map(repr, zip(*(column.to_pylist() for column in table.columns), strict=True)))


def answer(client: PositionClient) -> list[str]:
    """The rows of an invocation."""
    soup = client.soup
    outcome = questions.again(
        invoke, soup.engine.snapshot(), client.query, tenant=soup.tenant, now=soup.clock.now(), accept_truncation=True
    )
    return rows_of(outcome.to_table())
