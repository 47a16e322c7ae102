"""The marks of followers at the newest tuple: random publications, looks and registrations; none misses a match."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from psoup.answer.follow.kept_entries import FollowPlace
from psoup.answer.follow.page import (
    Follower,
    follow_page,
)
from psoup.answer.follow.told import FollowWanted, WantedQueries, wanted_queries
from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.plan.amounts import AS_USUAL, Amount, Keeping
from psoup.published.snapshot import Snapshot, StreamView
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget
from psoup_service.following import page_line
from psoup_service.following.follower import FollowClient, FollowForm
from psoup_service.following.marks import StreamMarks
from psoup_service.following.page_line import PageLine
from psoup_service.following.pages import FollowBatch, FollowPages, FollowTask
from psoup_testing.suite.budget import SEED, replayable, scaled

FORM = FollowForm("default", "", 40, 10**6, 15)
PREDICATES = ["a > 5", "a = 2", "t = 'x'", "TRUE", "a % 3 = 1 OR t = 'y'"]


@dataclass
class Reader:
    """A follower of the test: `told` is what it was told, from `begin` on."""

    client: FollowClient
    begin: int
    pairs: list[tuple[int, int]] = field(default_factory=list)
    pages: int = 0


class Play:
    """A stream whose followers wait for marks, as `psoup_service.following.followers` does with them."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.soup = LocalPSoup(EngineConfig(chunk_rows=64), VirtualClock(10**9))
        self.soup.execute("CREATE STREAM s (a BIGINT, t TEXT)")
        snapshot = self.soup.engine.snapshot()
        self.marks = StreamMarks(snapshot, snapshot.stream("s", "default"))
        self.readers = list[Reader]()
        self.keys = 0

    def step(self) -> None:
        steps = [self.push] * 4 + [self.register] * 3 + [self.look] * 5 + [self.page] * 12
        self.draw.choice([*steps, self.enter, self.leave, self.marks.tick, self.soup.maintain])()

    def push(self) -> None:
        rows = self.draw.choice([1, 2, 30])
        columns = {
            "a": [self.draw.randrange(9) for _ in range(rows)],
            "t": [self.draw.choice("xyz") for _ in range(rows)],
        }
        self.soup.push("s", pa.table(columns))

    def register(self) -> None:
        key = f"k{self.keys}" if self.draw.random() < 0.3 else ""
        self.keys += bool(key)
        labels = {"u": f"{self.draw.randrange(4)}"} if self.draw.random() < 0.7 else {}
        if self.draw.random() < 0.1:
            block = pa.table({"a": range(1_200), "u": [str(n % 4) for n in range(1_200)]})
            self.soup.register_many("SELECT a FROM s WHERE a = $a", block, labels=["u"])
        else:
            keeping = self.draw.choice([AS_USUAL, Keeping(Amount.NONE)]) if key else AS_USUAL
            sql = f"SELECT a FROM s WHERE {self.draw.choice(PREDICATES)}"
            self.soup.register(sql, key=key, labels=labels, keeping=keeping)

    def look(self) -> None:
        snapshot = self.soup.engine.snapshot()
        self.marks.look(snapshot, snapshot.stream("s", "default"))

    def enter(self) -> None:
        label = FollowWanted(labels=(("u", str(self.draw.randrange(4))),))
        wanted = self.draw.choice([FollowWanted(), label, label, FollowWanted(keys=(f"k{self.draw.randrange(5)}",))])
        next_id = self.soup.engine.snapshot().stream("s", "default").next_id
        client = FollowClient(1, FORM, wanted, FollowPlace(next_id), lambda _: None)
        self.marks.enter(client)
        self.readers.append(Reader(client, next_id))

    def leave(self) -> None:
        if len(self.readers) > 4:
            reader = self.draw.choice(self.readers)
            self.readers.remove(reader)
            self.marks.leave(reader.client)

    def page(self) -> None:
        """The page of a follower that is marked, or not at the newest tuple. A late one waits for its mark."""
        waiting = [
            reader
            for reader in self.readers
            if reader.client.marked.is_set() or not (reader.client.newest or reader.client.late)
        ]
        if waiting:
            self.read(self.draw.choice(waiting))

    def read(self, reader: Reader, *, between: bool = True) -> None:
        client, snapshot = reader.client, self.soup.engine.snapshot()
        client.marked.clear()
        anew, client.stale = client.stale, False
        pages, before = FollowPages(snapshot, ReadBudget(), 10**9), self.marks.seen if reader.pages else 2**62
        if self.draw.random() < 0.5:
            clients = [other.client for other in self.readers if other.pages]
            pages.share([FollowTask(other, other.place, before, True) for other in clients])
        batch = pages.page(FollowTask(client, client.place, before, anew))
        if between and self.draw.random() < 0.3:  # a look comes between the page and its note
            self.push()
            self.look()
        self.marks.follow_from(client, batch.place, batch.clauses, fresh=not reader.pages, late=batch.late)
        client.late = batch.late and batch.place >= FollowPlace(before)
        client.follower.rest()
        reader.pages += 1
        if batch.matches:
            pairs = pa.ipc.open_stream(batch.matches).read_all()
            reader.pairs += zip(pairs["tuple_id"].to_pylist(), pairs["query"].to_pylist(), strict=True)

    def check(self) -> int:
        """Look once, and read the marked followers; then each follower has been told all there is."""
        self.look()
        self.marks.tick()
        for reader in self.readers:
            while not reader.client.newest or reader.client.marked.is_set():
                self.read(reader, between=False)
        snapshot = self.soup.engine.snapshot()
        view = snapshot.stream("s", "default")
        for reader in self.readers:
            wanted = Follower(reader.client.wanted)
            page = follow_page(snapshot, view, wanted, FollowPlace(reader.begin), most_rows=10**6, most_bytes=10**9)
            assert reader.pairs == list(zip(page.tuple_ids.tolist(), page.queries.tolist(), strict=True))
        return sum(len(reader.pairs) for reader in self.readers)


@pytest.mark.seeded("a follower is marked by its clauses as of its last page")
def test_followers_at_the_newest_tuple_miss_nothing() -> None:
    pairs = 0
    for seed in range(SEED, SEED + scaled(10)):
        with replayable(seed):
            play = Play(random.Random(seed))
            for _ in range(4):
                play.enter()
            for _ in range(150):
                play.step()
            pairs += play.check()
    assert pairs


def test_a_follower_without_new_matches_is_not_marked() -> None:
    play = Play(random.Random(1))
    play.soup.register("SELECT a FROM s WHERE a = 7", labels={"u": "1"})
    client = FollowClient(1, FORM, FollowWanted(labels=(("u", "1"),)), FollowPlace(0), lambda _: None)
    play.marks.enter(client)
    reader = Reader(client, 0)
    for values in ([1], [2], [3]):  # the first tuple marks it: a query may have come while it entered
        play.read(reader, between=False)
        play.soup.push("s", pa.table({"a": values, "t": ["x"]}))
        play.look()
        if not client.marked.is_set():
            break
    assert not client.marked.is_set() and client.newest
    play.soup.register("SELECT a FROM s WHERE a = 8", labels={"u": "2"})
    play.soup.push("s", pa.table({"a": [8] * 50, "t": ["x"] * 50}))
    play.look()
    assert not client.marked.is_set() and play.marks.place_of(client).next_id == play.marks.seen
    play.soup.push("s", pa.table({"a": [7], "t": ["x"]}))
    play.look()
    assert client.marked.is_set() and not client.newest


def test_a_named_query_is_told_at_the_next_tick_while_its_amount_is_none() -> None:
    """An altered query has another clause. Its followers wait for the matches of that clause from then on."""
    play = Play(random.Random(1))
    query = play.soup.register("SELECT a FROM s WHERE a = 7", key="k")
    client = FollowClient(1, FORM, FollowWanted(keys=("k",)), FollowPlace(0), lambda _: None)
    play.marks.enter(client)
    reader = Reader(client, 0)
    play.readers.append(reader)

    def follow(*values: int) -> list[int]:
        """The tuples of a push that the follower is told, if the marks wake it."""
        play.soup.push("s", pa.table({"a": values, "t": ["x"] * len(values)}))
        play.look()
        return told()

    def told() -> list[int]:
        while client.marked.is_set() or not (client.newest or client.late):
            play.read(reader, between=False)
        pairs, reader.pairs = reader.pairs, []
        return [tuple_id for tuple_id, _ in pairs]

    def tick() -> list[int]:
        play.marks.tick()
        return told()

    assert follow(7, 1) == [0]
    play.soup.alter_queries([query], amount=Amount.NONE)
    assert follow(7) == [2]  # the alteration made a page at once
    assert follow(7, 7) == follow(1, 7) == []
    assert client.place.next_id == 3 and tick() == [3, 4, 6] and tick() == [] == follow(1) and not client.newest
    play.soup.register("SELECT t FROM s WHERE a = 7")  # the query becomes a guest of this one's clause
    assert follow(7) == [] and tick() == [8]
    play.soup.alter_queries([query], amount=Amount.PARTIAL)
    assert follow(1) == [] == follow(7) and tick() == [10] and follow(1) == [] and follow(7) == [12]


def test_a_step_delivers_all_pages_that_were_made_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_line, "_TOGETHER_S", -1.0)
    soup, steps = LocalPSoup(EngineConfig(), VirtualClock(10**9)), list[int]()
    soup.execute("CREATE STREAM s (a BIGINT)")
    for number in range(5):
        soup.register("SELECT a FROM s WHERE a = 1", labels={"u": f"{number}"})
    soup.push("s", pa.table({"a": [1, 2]}))

    class Reads:
        clock = VirtualClock(10**9)

        async def evaluate(self, read: Callable[[Snapshot, ReadBudget], object]) -> object:
            steps.append(1)
            return read(soup.engine.snapshot(), ReadBudget())

    async def body() -> list[FollowBatch]:
        line = PageLine(Reads())  # type: ignore[arg-type]
        wanted = [FollowWanted(labels=(("u", f"{number}"),)) for number in range(5)]
        clients = [FollowClient(1, FORM, label, FollowPlace(0), lambda _: None) for label in wanted]
        serving = asyncio.create_task(line.serve())
        pages = await asyncio.gather(*(line.page(client, 2) for client in clients))
        serving.cancel()
        return pages

    pages = asyncio.run(body())
    assert [len(pa.ipc.open_stream(page.matches).read_all()) for page in pages] == [1] * 5
    assert len(steps) == 1


def test_a_page_made_for_two_followers_brings_the_new_query_to_both() -> None:
    soup, (first, second, other) = LocalPSoup(EngineConfig(), VirtualClock(10**9)), map(_follower, "112")
    soup.execute("CREATE STREAM s (a BIGINT)")
    soup.register("SELECT a FROM s WHERE a = 1", labels={"u": "1"})

    def pages(*clients: FollowClient, anew: bool) -> list[bool]:
        made = FollowPages(soup.engine.snapshot(), ReadBudget(), 10**9)
        tasks = [FollowTask(client, client.place, anew=anew) for client in clients]
        made.share(tasks)
        batches = [made.page(task) for task in tasks]
        for client, batch in zip(clients, batches, strict=True):
            client.place = batch.place
            client.follower.rest()
        return [bool(batch.matches) for batch in batches]

    for client in (first, second, other):
        pages(client, anew=True)
    soup.register("SELECT a FROM s WHERE a = 2", labels={"u": "1"})
    soup.push("s", pa.table({"a": [1]}))
    assert pages(first, second, other, anew=True) == [True, True, False]
    soup.push("s", pa.table({"a": [2]}))
    assert pages(second, other, anew=False) == [True, False]


def test_a_page_resolves_queries_once_and_only_after_a_new_one_of_its_follower(monkeypatch: pytest.MonkeyPatch) -> None:
    soup, client, calls = LocalPSoup(EngineConfig(), VirtualClock(10**9)), _follower("1"), list[FollowWanted]()

    def lookup(snapshot: Snapshot, view: StreamView, selection: FollowWanted) -> WantedQueries:
        calls.append(selection)
        return wanted_queries(snapshot, view, selection)

    monkeypatch.setattr("psoup.answer.follow.page.wanted_queries", lookup)
    soup.execute("CREATE STREAM s (a BIGINT)")
    soup.register("SELECT a FROM s WHERE a = 1", labels={"u": "1"})
    for user, anew, count in (("1", True, 1), ("2", False, 1), ("1", True, 2)):
        soup.register("SELECT a FROM s WHERE a = 1", labels={"u": user})
        soup.push("s", pa.table({"a": [1]}))
        pages = FollowPages(soup.engine.snapshot(), ReadBudget(), 10**9)
        batch = pages.page(FollowTask(client, client.place, anew=anew))
        client.place = batch.place
        client.follower.rest()
        assert batch.matches and len(calls) == count


def _follower(user: str) -> FollowClient:
    return FollowClient(1, FORM, FollowWanted(labels=(("u", user),)), FollowPlace(0), lambda _: None)


def test_one_evaluation_serves_all_followers_that_name_queries_with_amount_none() -> None:
    soup, read = LocalPSoup(EngineConfig(), VirtualClock(10**9)), list[int]()
    soup.execute("CREATE STREAM s (a BIGINT)")
    none = {"keeping": Keeping(Amount.NONE)}
    soup.register_many(
        "SELECT a FROM s WHERE a < $a", pa.table({"a": range(40), "k": map(str, range(40))}), key="k", **none
    )
    soup.push("s", pa.table({"a": range(40)}))

    class Counted(ReadBudget):
        def examine(self, rows: int) -> None:
            read.append(rows)

    keys = [FollowWanted(keys=(str(number),)) for number in range(40)]
    tasks = [FollowTask(FollowClient(1, FORM, some, FollowPlace(0), lambda _: None), FollowPlace(0)) for some in keys]
    pages = FollowPages(soup.engine.snapshot(), Counted(), 10**9)
    pages.share(tasks)
    batches = [pages.page(task) for task in tasks]
    assert read == [40] and all(batch.late for batch in batches)
    counts = [len(pa.ipc.open_stream(batch.matches).read_all()) if batch.matches else 0 for batch in batches]
    assert counts == [*range(40)]


def test_pages_that_are_too_much_together_are_made_one_by_one() -> None:
    """A step has one budget. Without this, the followers of cheap queries would end with the error of all."""
    soup, budgets = LocalPSoup(EngineConfig(), VirtualClock(10**9)), list[ReadBudget]()
    soup.execute("CREATE STREAM s (a BIGINT)")
    for number in range(5):
        soup.register("SELECT a FROM s WHERE a = 1", key=f"{number}", keeping=Keeping(Amount.NONE))
    soup.push("s", pa.table({"a": [1, 2]}))

    class Reads:
        clock = VirtualClock(10**9)

        async def evaluate(self, read: Callable[[Snapshot, ReadBudget], object]) -> object:
            budgets.append(ReadBudget(rows=2))
            return read(soup.engine.snapshot(), budgets[-1])

    async def body() -> list[FollowBatch]:
        line = PageLine(Reads())  # type: ignore[arg-type]
        wanted = [FollowWanted(keys=(f"{number}",)) for number in range(5)]
        clients = [FollowClient(1, FORM, some, FollowPlace(0), lambda _: None) for some in wanted]
        serving = asyncio.create_task(line.serve())
        pages = await asyncio.gather(*(line.page(client, 2) for client in clients))
        serving.cancel()
        return pages

    pages = asyncio.run(body())
    assert [len(pa.ipc.open_stream(page.matches).read_all()) for page in pages] == [1] * 5
