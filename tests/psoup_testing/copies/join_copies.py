"""A client with a copy of a join, which it brings up to date by boxes. An invocation gives the expected rows."""

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
    """A client's rows of a join, by their tuple IDs, and its content according to the service."""

    def __init__(self, soup: LocalPSoup, query: int) -> None:
        self.soup, self.query = soup, query
        self.held: HeldBox | None = None
        self.rows: dict[tuple[int, ...], tuple[Any, ...]] = {}

    def ask(self, limit: int, at_once: int, met: Counter[str]) -> bool:
        """Ask what has changed, take at most so many rows, and apply them; returns whether that was all."""
        snapshot = self.soup.engine.snapshot()
        record = snapshot.query(self.query, self.soup.tenant)
        how = paired(record.query.plan)
        assert how is not None
        changes = joined_since(snapshot, record, self.held, Question(self.soup.clock.now(), accept_truncation=True))
        stays = {
            ids for ids in self.rows if all(low <= i < high for i, (low, high) in zip(ids, changes.keep, strict=True))
        }
        met["rows leave"] += (leave := len(stays) < len(self.rows))
        assert not leave or self.held is None or self.held.place or changes.any_leaves(), "the client is not told"
        self.rows = {ids: self.rows[ids] for ids in stays}
        left, box = limit, changes.all_held
        for piece in changes.pieces(at_once, EVERYTHING):
            taken = min(left, piece.rows.num_rows)
            for row in zip(*(column.to_pylist() for column in piece.rows.slice(0, taken).columns), strict=True):
                ids = row[: changes.how.sources]
                assert ids not in self.rows, "a row was sent that the client held"
                self.rows[ids] = row[changes.hidden :]
            left -= taken
            if not left:
                box = changes.held_after(piece, taken)
                break
        self._count(box, met)
        completeness = changes.completeness
        met["tuples later than NOW"] += any(
            part.end is not None
            and completeness.now is not None
            and part.end > completeness.now
            and high < view.next_id
            for part, (_, high), (view, _) in zip(
                completeness.sources, changes.all_held.target, changes._sides, strict=True
            )
        )
        box.check()
        self.held = from_bytes(to_bytes(box))
        assert self.held == box, "a box has other bytes"
        return box.place is None

    def _count(self, box: HeldBox, met: Counter[str]) -> None:
        """Count what happened to the box."""
        if self.held is not None:
            met["a page goes on"] += (resumed := self.held.place is not None)
            met["it ends in another step"] += bool(resumed and box.place and box.place.step != self.held.place.step)
            pairs = list(zip(self.held.target, box.target, strict=True))
            met["new below"] += any(new[0] < old[0] for old, new in pairs)
            met["an end steps back"] += any(new[1] < old[1] for old, new in pairs)

    def compare(self, complete: bool) -> None:
        """Compare what it holds with what an invocation says: the same rows in FROM order, or a part of them."""
        soup, snapshot = self.soup, self.soup.engine.snapshot()
        how = paired(snapshot.query(self.query, soup.tenant).query.plan)
        comparison = again(
            invoke, snapshot, self.query, tenant=soup.tenant, now=soup.clock.now(), accept_truncation=True
        )
        columns = [column.to_pylist() for column in comparison.to_table().columns]
        whole = list(map(repr, zip(*columns, strict=True)))
        assert how is not None
        mine = [repr(self.rows[ids][: len(columns)]) for ids in sorted(self.rows)]
        if how.order:  # the client sorts them: `tests/clients/copies/test_client_copies_joins.py`
            whole.sort()
            mine.sort()
        if complete:
            assert mine == whole, "the answer has other rows"
        else:
            assert not Counter(mine) - Counter(whole), "a row that is not in the answer"
