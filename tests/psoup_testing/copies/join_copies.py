"""A client with a copy of a join, which it brings up to date by boxes; an invocation says what it must hold."""

from __future__ import annotations

from collections import Counter
from typing import Any

from psoup.answer.copies.join_since import HeldBox, joined_since, paired
from psoup.answer.invoke import invoke
from psoup.answer.question import Question
from psoup.local import LocalPSoup
from psoup_service.sync.held_boxes import from_bytes, to_bytes
from psoup_testing.oracles.questions import again

EVERYTHING = 10**9


class Client:
    """The rows that a client holds of a join, by their tuple IDs, and what it was told that it holds."""

    def __init__(self, soup: LocalPSoup, query: int) -> None:
        self.soup, self.query = soup, query
        self.held: HeldBox | None = None
        self.rows: dict[tuple[int, ...], tuple[Any, ...]] = {}

    def ask(self, most: int, at_once: int, met: Counter[str]) -> bool:
        """Ask what has changed, take at most so many rows, and apply them; returns whether that was all."""
        snapshot = self.soup.engine.snapshot()
        record = snapshot.query(self.query, self.soup.tenant)
        how = paired(record.query.plan)
        assert how is not None
        found = joined_since(snapshot, record, self.held, Question(self.soup.clock.now(), accept_truncation=True))
        stays = {
            ids for ids in self.rows if all(low <= i < high for i, (low, high) in zip(ids, found.keep, strict=True))
        }
        met["rows leave"] += (leave := len(stays) < len(self.rows))
        assert not leave or self.held is None or self.held.place or found.any_leaves(), "the client is not told"
        self.rows = {ids: self.rows[ids] for ids in stays}
        left, held = most, found.all_held
        for piece in found.pieces(at_once, EVERYTHING):
            taken = min(left, piece.rows.num_rows)
            for row in zip(*(column.to_pylist() for column in piece.rows.slice(0, taken).columns), strict=True):
                ids = row[: found.how.sources]
                assert ids not in self.rows, "a row was sent that the client held"
                self.rows[ids] = row[found.hidden :]
            left -= taken
            if not left:
                held = found.held_after(piece, taken)
                break
        self._count(held, met)
        told = found.completeness
        met["tuples later than NOW"] += any(
            part.end is not None and told.now is not None and part.end > told.now and high < view.next_id
            for part, (_, high), (view, _) in zip(told.sources, found.all_held.target, found._sides, strict=True)
        )
        held.check()
        self.held = from_bytes(to_bytes(held))
        assert self.held == held, "a box has other bytes"
        return held.place is None

    def _count(self, held: HeldBox, met: Counter[str]) -> None:
        """Count what happened to the box."""
        if self.held is not None:
            met["a page goes on"] += (resumed := self.held.place is not None)
            met["it ends in another step"] += bool(resumed and held.place and held.place.step != self.held.place.step)
            pairs = list(zip(self.held.target, held.target, strict=True))
            met["new below"] += any(new[0] < old[0] for old, new in pairs)
            met["an end steps back"] += any(new[1] < old[1] for old, new in pairs)

    def compare(self, complete: bool) -> None:
        """Compare what it holds with what an invocation says: the same rows in FROM order, or a part of them."""
        soup, snapshot = self.soup, self.soup.engine.snapshot()
        how = paired(snapshot.query(self.query, soup.tenant).query.plan)
        told = again(invoke, snapshot, self.query, tenant=soup.tenant, now=soup.clock.now(), accept_truncation=True)
        columns = [column.to_pylist() for column in told.to_table().columns]
        whole = list(map(repr, zip(*columns, strict=True)))
        assert how is not None
        mine = [repr(self.rows[ids][: len(columns)]) for ids in sorted(self.rows)]
        if how.order:  # the client sorts them: `tests/clients/test_client_copies_joins.py`
            whole.sort()
            mine.sort()
        if complete:
            assert mine == whole, "the answer has other rows"
        else:
            assert not Counter(mine) - Counter(whole), "a row that is not in the answer"
