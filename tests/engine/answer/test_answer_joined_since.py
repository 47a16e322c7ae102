"""Changes of a join since a client's last request: after every reply the client has the answer, or a part of it.

Histories are random: two streams that are pushed to, late tuples, clocks that step, retention, upkeep. Joins have two
to four sources, each with a window of its own. A client takes as many rows as it likes of the pieces that it is given;
an invocation of the same snapshot says what it must hold. What the histories met is counted.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from psoup.answer.copies import id_boxes
from psoup.answer.copies import join_since as module
from psoup.answer.copies.join_since import HeldBox, paired
from psoup.config import EngineConfig
from psoup.errors import PSoupError
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_testing.copies.join_copies import EVERYTHING, Client
from psoup_testing.histories.join_statements import JoinQuery
from psoup_testing.oracles.join_duel import JoinDuel
from psoup_testing.suite.budget import Budget, unscaled
from psoup_testing.suite.sweeps import swept

CONFIG = EngineConfig(chunk_rows=64, piece_rows=64)
BASE = 1_700_000_000
WINDOWS = ["20 SECONDS", "30 SECONDS] END [NOW - 10 SECONDS", "50 ROWS", "60 ROWS] END [NOW - 20 ROWS", "", "START"]
WINDOWS += ["END"]
FROMS = [
    ("r, s", "r.k = s.k"),
    ("r, s", "r.k = s.k AND r.v < s.w"),
    ("r AS x, r AS y", "x.k = y.k AND x.v > y.v"),
    ("r, s", "s.w BETWEEN r.v - 1 AND r.v + 1"),
    ("r AS x, r AS y, s", "x.k = y.v AND y.k = s.k"),
    ("r AS x, s AS y, r AS z", "x.k = y.k AND y.w = z.v AND x.v + z.k > 3"),
    ("r AS x, s AS y, r AS z, s AS u", "x.k = y.k AND y.k = z.k AND z.v = u.w AND u.w > 4"),
]


class History:
    """One random history."""

    def __init__(self, seed: int, met: Counter[str]) -> None:
        self.random, self.met = random.Random(seed), met
        self.clock = VirtualClock(BASE * SECOND)
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
            self.soup.push(name, pa.table(columns), refused="count")

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
        self.met["complete" if complete else "a part"] += 1
        self.met["rows"] += len(client.rows) > 3
        client.compare(complete)


class CopyDuel(JoinDuel):
    """Histories of joins, with restarts, chunks on disk, attached history, idle streams: copies instead of DuckDB."""

    def __init__(self, seed: int, path: Path, met: Counter[str], **kind: bool) -> None:
        self.copies, self.met = dict[int, Client](), met
        super().__init__(seed, path, **kind)

    def _load(self, number: int) -> None:
        """DuckDB is not asked."""

    def _compare(self, query_id: int, query: JoinQuery) -> None:
        """Let the client of a query ask, and compare what it holds with the answer."""
        if paired(self.soup.engine.snapshot().query(query_id, self.soup.tenant).query.plan) is None:
            return
        client = self.copies.setdefault(query_id, Client(self.soup, query_id))
        below = client.held is not None and any(low < 0 for low, _ in client.held.target)
        complete = client.ask(self.make.pick((3, 30, EVERYTHING)), self.make.pick((1, 1_000)), self.met)
        self.compared += 1
        self.met["attached"] += not below and client.held is not None and any(low < 0 for low, _ in client.held.target)
        self.met["on disk"] += any(view.archived for view in self.soup.engine.snapshot().by_id.values())
        client.compare(complete)


@pytest.mark.parametrize(
    ("kind", "count"),
    swept([({"idle": True}, 1), ({"idle": True}, 4), ({"jobs": True}, 4)], fast=1),
    ids=["idle, one", "idle", "jobs"],
)
def test_a_copy_outlives_restarts_disk_and_attached_history(tmp_path: Path, kind: dict[str, bool], count: int) -> None:
    met, compared = Counter[str](), 0
    for seed in range(count):
        duel = CopyDuel(seed, tmp_path / str(seed), met, **kind)
        try:
            for _ in range(3):
                duel.run(events=8)
            duel.work()
            duel.wake()
            compared += duel.compared
        finally:
            duel.close()
    wanted = ["a page goes on", "new below", "attached", "on disk"] if "jobs" in kind else ["a page goes on"]
    assert compared
    assert count < 4 or not [case for case in wanted if not met[case]], met


def window(draw: random.Random) -> str:
    """A window of a source, in brackets."""
    begin = draw.choice(WINDOWS)
    if begin == "END":
        return f"[BEGIN (START) END ({BASE + draw.randint(10, 90)})]"
    return "" if not begin else "[BEGIN (START)]" if begin == "START" else bracketed(begin)


def bracketed(begin: str) -> str:
    return "[BEGIN (NOW - " + begin.replace("] END [", ") END (") + ")]"


def run_histories(seeds: Iterable[int], met: Counter[str]) -> None:
    for seed in seeds:
        history = History(seed, met)
        for _ in range(60):
            history.step()


WANTED = ["complete", "a part", "rows", "rows leave", "a page goes on", "it ends in another step", "new below"]
WANTED += ["tuples later than NOW"]


@pytest.mark.parametrize("count", swept([1, 4, 14], fast=1))
def test_a_client_holds_the_answer_after_any_history(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    met, histories = Counter[str](), Budget("joins since: histories", unscaled(count))
    for seed in histories.rounds():
        monkeypatch.setattr(module, "_SLICE", (4_096, 7)[seed % 2])
        run_histories([seed], met)
        histories.count()
    wanted = [*WANTED, "an end steps back"] if count >= 4 else ["complete", "a part", "rows"]
    assert not [case for case in wanted if not met[case]], met


def only_above(target: id_boxes.Box, kept: id_boxes.Box) -> Any:
    return ((step, box) for step, box in id_boxes.steps(target, kept) if step % 2)


def of_all_before(target: id_boxes.Box, kept: id_boxes.Box) -> Any:
    """The steps with everything of earlier sources, not what is kept of them."""
    for step, box in id_boxes.steps(target, kept):
        yield step, (*target[: step // 2], *box[step // 2 :])


def from_the_row_on(box: id_boxes.Box, place: id_boxes.Ids) -> Any:
    return id_boxes.behind(box, (*place[:-1], place[-1] - 1))


def from_the_next_tuple_on(box: id_boxes.Box, place: id_boxes.Ids) -> Any:
    return id_boxes.behind(box, (place[0], *[EVERYTHING for _ in place[1:]]))


def not_cut(self: HeldBox, windows: id_boxes.Box) -> HeldBox:
    return self


def in_another_step(self: Any, piece: Any, rows: int) -> HeldBox:
    held = held_after(self, piece, rows)
    assert held.place is not None
    return HeldBox(held.target, held.kept, module.StepPlace(held.place.step + 1, held.place.row))


def as_if_all_had_come(self: Any, piece: Any, rows: int) -> HeldBox:
    return HeldBox(piece.target)


def as_if_nothing_was_kept(self: Any, piece: Any, rows: int) -> HeldBox:
    held = held_after(self, piece, rows)
    return HeldBox(held.target, tuple([(low, low) for low, _ in held.target]), held.place)


held_after = module.JoinedSince.held_after


@pytest.mark.long
@pytest.mark.seeded("the steps of a join miss what is new below, or repeat rows of earlier sources")
@pytest.mark.seeded(
    "a page of a join begins with the row that the last one ended with, or after all rows of its first tuple"
)
@pytest.mark.seeded("the box of a join is not cut by the windows of now, or names another step")
@pytest.mark.seeded("a page of a join is told as all of it, or forgets what was kept")
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
