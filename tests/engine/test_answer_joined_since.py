"""What a client is told of a join since it last asked: after every reply it holds the answer, or a part of it.

Histories are random: two streams that are pushed to, late tuples, clocks that step, retention, upkeep. Joins have two
to four sources, each with a window of its own. A client takes as many rows as it likes of the pieces that it is given;
an invocation of the same snapshot says what it must hold. What the histories met is counted.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from psoup.answer import boxes
from psoup.answer import joined_since as module
from psoup.answer.invoke import invoke
from psoup.answer.joined_since import HeldBox, joined_since, paired
from psoup.clock import VirtualClock
from psoup.config import EngineConfig
from psoup.errors import PSoupError
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup_service.sync.held_boxes import from_bytes, to_bytes
from psoup_testing.budget import SCALE, Budget

CONFIG = EngineConfig(chunk_rows=64, piece_rows=64)
HISTORIES = Budget("joins since: histories", round(10 / min(SCALE, 1)))
WINDOWS = ["20 SECONDS", "30 SECONDS] END [NOW - 10 SECONDS", "50 ROWS", "60 ROWS] END [NOW - 20 ROWS", "", "START"]
FROMS = [
    ("r, s", "r.k = s.k"),
    ("r, s", "r.k = s.k AND r.v < s.w"),
    ("r AS x, r AS y", "x.k = y.k AND x.v > y.v"),
    ("r, s", "s.w BETWEEN r.v - 1 AND r.v + 1"),
    ("r AS x, r AS y, s", "x.k = y.v AND y.k = s.k"),
    ("r AS x, s AS y, r AS z", "x.k = y.k AND y.w = z.v AND x.v + z.k > 3"),
    ("r AS x, s AS y, r AS z, s AS u", "x.k = y.k AND y.k = z.k AND z.v = u.w AND u.w > 4"),
]
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
        found = joined_since(snapshot, record, self.held, now=self.soup.clock.now(), accept_truncation=True)
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

    def shown(self) -> list[tuple[Any, ...]]:
        """The rows in FROM order, sorted by the keys of ORDER BY, if there are any."""
        how = paired(self.soup.engine.snapshot().query(self.query, self.soup.tenant).query.plan)
        assert how is not None
        rows = [self.rows[ids] for ids in sorted(self.rows)]
        for place, key in reversed(list(enumerate(how.order))):
            at = place - len(how.order)
            rows.sort(key=lambda row, at=at: (row[at] is not None, row[at] or 0), reverse=key.descending)
            rows.sort(key=lambda row, at=at: row[at] is None)
        return [row[: len(row) - len(how.order)] for row in rows]


def answer(client: Client) -> list[tuple[Any, ...]]:
    """What an invocation says."""
    soup = client.soup
    told = invoke(
        soup.engine.snapshot(), client.query, tenant=soup.tenant, now=soup.clock.now(), accept_truncation=True
    )
    return list(zip(*(column.to_pylist() for column in told.to_table().columns), strict=True))


class History:
    """One random history."""

    def __init__(self, seed: int, met: Counter[str]) -> None:
        self.random, self.met = random.Random(seed), met
        self.clock = VirtualClock(1_700_000_000 * SECOND)
        self.soup = LocalPSoup(CONFIG, self.clock)
        self.event = self.random.random() < 0.5
        kept = self.random.choice(["", " RETENTION 40 SECONDS", " RETENTION 100 ROWS", ""])
        timed = ", at TIMESTAMP NOT NULL) TIMESTAMP BY at LATENESS 5 SECONDS" if self.event else ")"
        for name, column in (("r", "v"), ("s", "w")):
            self.soup.execute(f"CREATE STREAM {name} (k BIGINT, {column} BIGINT{timed}{kept}")
        self.clients = list[Client]()

    def step(self) -> None:
        """Do one thing, and compare."""
        kind = self.random.random()
        if kind < 0.4:
            self.push()
        elif kind < 0.5 and len(self.clients) < 8:
            self.register()
        elif kind < 0.55:
            self.met["the clock steps"] += 1
            for seconds in (self.random.randint(-15, 15), -self.random.randint(0, 15)):
                self.clock.advance(seconds=seconds)
                for client in self.clients:
                    self.compare(client)
        elif kind < 0.6:
            self.soup.maintain()
        elif kind < 0.63:
            self.soup.engine.expire(self.clock.now())
        elif self.clients:
            self.compare(self.random.choice(self.clients))

    def push(self) -> None:
        """Push up to twelve tuples to one or both streams, up to nine seconds behind the clock."""
        draw = self.random
        self.clock.advance(seconds=draw.randint(0, 4))
        for name, column in draw.choice([[("r", "v")], [("s", "w")], [("r", "v"), ("s", "w")]]):
            rows = draw.randint(1, 12)
            columns: dict[str, Any] = {
                "k": [draw.choice([None, *range(8)]) for _ in range(rows)],
                column: [draw.choice([None, *range(9)]) for _ in range(rows)],
            }
            if self.event:
                times = [self.clock.now() - draw.randint(0, 9 * SECOND) for _ in range(rows)]
                columns["at"] = pa.array(times, pa.timestamp("us", "UTC"))
            self.soup.push(name, pa.table(columns))

    def register(self) -> None:
        """Register a join, with a client or two."""
        draw = self.random
        sources, where = draw.choice(FROMS)
        names = [source.split()[-1] for source in sources.split(", ")]
        windowed = [f"{source} {window(draw)}" for source in sources.split(", ")]
        order = draw.choice(["", "", f"ORDER BY {names[-1]}.k DESC, {names[0]}.k"])
        columns = ", ".join(f"{name}.k AS k{name}, {name}._id AS i{name}" for name in names)
        try:
            query = self.soup.register(f"SELECT {columns} FROM {', '.join(windowed)} WHERE {where} {order}")
        except PSoupError:
            return
        self.clients += [Client(self.soup, query) for _ in range(draw.randint(1, 2))]

    def compare(self, client: Client) -> None:
        """Let a client ask, and compare what it holds with the answer."""
        draw = self.random
        complete = client.ask(draw.choice([1, 5, 40, EVERYTHING]), draw.choice([1, 7, 1_000]), self.met)
        whole = answer(client)
        self.met["complete" if complete else "a part"] += 1
        self.met["rows"] += len(whole) > 3
        if complete:
            assert client.shown() == whole, "the answer has other rows"
        else:
            assert not Counter(client.shown()) - Counter(whole), "a row that is not in the answer"


def window(draw: random.Random) -> str:
    """A window of a source, in brackets."""
    begin = draw.choice(WINDOWS)
    return "" if not begin else "[BEGIN (START)]" if begin == "START" else bracketed(begin)


def bracketed(begin: str) -> str:
    return "[BEGIN (NOW - " + begin.replace("] END [", ") END (") + ")]"


def run_histories(seeds: Iterable[int], met: Counter[str]) -> None:
    for seed in seeds:
        history = History(seed, met)
        for _ in range(60):
            history.step()
        HISTORIES.count()


WANTED = ["complete", "a part", "rows", "rows leave", "a page goes on", "it ends in another step", "new below"]


def test_a_client_holds_the_answer_after_any_history() -> None:
    met = Counter[str]()
    run_histories(HISTORIES.rounds(), met)
    assert not [case for case in [*WANTED, "an end steps back"] if not met[case]], met


def only_above(target: boxes.Box, kept: boxes.Box) -> Any:
    return ((step, box) for step, box in boxes.steps(target, kept) if step % 2)


def of_all_before(target: boxes.Box, kept: boxes.Box) -> Any:
    """The steps with everything of earlier sources, not what is kept of them."""
    for step, box in boxes.steps(target, kept):
        yield step, (*target[: step // 2], *box[step // 2 :])


def from_the_row_on(box: boxes.Box, place: boxes.Ids) -> Any:
    return boxes.behind(box, (*place[:-1], place[-1] - 1))


def from_the_next_tuple_on(box: boxes.Box, place: boxes.Ids) -> Any:
    return boxes.behind(box, (place[0], *[EVERYTHING for _ in place[1:]]))


def not_cut(self: HeldBox, windows: boxes.Box) -> HeldBox:
    return self


def in_another_step(self: Any, piece: Any, rows: int) -> HeldBox:
    held = held_after(self, piece, rows)
    assert held.place is not None
    return HeldBox(held.target, held.kept, module.Place(held.place.step + 1, held.place.row))


def as_if_all_had_come(self: Any, piece: Any, rows: int) -> HeldBox:
    return HeldBox(piece.target)


def as_if_nothing_was_kept(self: Any, piece: Any, rows: int) -> HeldBox:
    held = held_after(self, piece, rows)
    return HeldBox(held.target, tuple([(low, low) for low, _ in held.target]), held.place)


held_after = module.JoinedSince.held_after


@pytest.mark.parametrize(
    ("owner", "name", "planted"),
    [
        (module, "steps", only_above),
        (module, "steps", of_all_before),
        (module, "behind", from_the_row_on),
        (module, "behind", from_the_next_tuple_on),
        (HeldBox, "within", not_cut),
        (module.JoinedSince, "held_after", in_another_step),
        (module.JoinedSince, "held_after", as_if_all_had_come),
        (module.JoinedSince, "held_after", as_if_nothing_was_kept),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_planted_fault_is_found(owner: Any, name: str, planted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, name, planted)
    with pytest.raises(AssertionError, match=r"the answer|that the client held|other bytes|is not told"):
        run_histories(range(40), Counter())
