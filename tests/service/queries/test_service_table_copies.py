"""Copies of answers over a table: after a sync a copy equals the invocation, whatever was upserted and deleted."""

from __future__ import annotations

import random
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pytest

from psoup.answer.copies import rows_since, versions_since
from psoup.answer.follow.kept_entries import FollowPlace, kept_from
from psoup.config import EngineConfig
from psoup.execution.select.version_entries import VersionEntries, entries_between
from psoup.published.snapshot import StreamView
from psoup.work.clock import VirtualClock
from psoup_client.copies.answer_copy import AnswerCopy, copy_of_bytes, token_of
from psoup_proto.v1 import sync_pb2
from psoup_service.sync import changes
from psoup_testing.copies.copy_desk import Desk, Line, Manner
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.histories.upserts import PREDICATES, STATEMENT, Upserts
from psoup_testing.oracles.questions import again
from psoup_testing.suite.budget import SEED, replayable, scaled

FORMS = (
    *(f"SELECT k, price FROM ads WHERE {predicate}" for predicate in PREDICATES),
    "SELECT * FROM ads WHERE price > 2 ORDER BY price DESC, k",
    "SELECT k FROM ads WHERE place = 'x' LIMIT 3",
    "SELECT k, price FROM ads ORDER BY price DESC NULLS LAST, k LIMIT 4",
    "SELECT DISTINCT place FROM ads WHERE price > 3",
    "SELECT place, count(*) AS n, sum(price) AS s FROM ads GROUP BY place",
    "SELECT ads.k, o.n FROM orders o JOIN ads ON o.k = ads.k WHERE ads.price > 2",
    "SELECT o.n, ads.place FROM orders o LEFT JOIN ads ON o.k = ads.k",
    "SELECT n FROM orders WHERE k IN (SELECT k FROM ads WHERE place = 'y')",
    "SELECT o.n, a.price FROM orders o JOIN ads a AS OF o ON a.k = o.k WHERE a.price > 2",
    "SELECT o.n, a.place FROM orders o LEFT JOIN ads a AS OF o ON a.k = o.k",
)
MANNERS = (Manner(), Manner(), Manner(max_bytes=300), Manner(max_rows=2), Manner(oldest_first=True, max_rows=3))


class Play:
    """A table with copies of each form at clients that come and go."""

    def __init__(self, draw: random.Random, path: Path) -> None:
        self.draw = draw
        self.soup = RestartingPSoup(EngineConfig(chunk_rows=64), VirtualClock(10**15), path / "data")
        self.soup.execute(STATEMENT)
        self.soup.execute("CREATE STREAM orders (k BIGINT, n BIGINT)")
        self.upserts, self.orders = Upserts(draw), 0
        self.desk = Desk(self.soup, path)
        self.keys = [f"q{number}" for number in range(len(FORMS))]
        for key, text in zip(self.keys, FORMS, strict=True):
            self.soup.register(text, key=key)
        self.copies = [self.new(key) for key in self.keys]

    def new(self, key: str) -> AnswerCopy:
        return AnswerCopy(Line(self.desk), "", key=key)

    def step(self) -> None:
        acts = [self.push] * 4 + [self.order] + [self.sync] * 8 + [self.part] * 2
        self.draw.choice([*acts, self.soup.maintain, self.desk.restart, self.desk.kill, self.begin, self.remake])()
        self.soup.clock.advance(seconds=self.draw.choice([0, 1, 1, 60, 60, 200_000]))

    def push(self) -> None:
        for _ in range(self.draw.choice([1, 1, 6, 12])):
            self.upserts.push(self.soup)
            self.soup.clock.advance(seconds=1)

    def order(self) -> None:
        keys = [self.draw.randrange(24) for _ in range(3)]
        self.soup.push("orders", pa.table({"k": keys, "n": range(self.orders, self.orders + 3)}))
        self.orders += 3

    def begin(self) -> None:
        self.copies.append(self.new(self.draw.choice(self.keys)))

    def remake(self) -> None:
        copy = self.draw.choice(self.copies)
        self.copies.append(copy_of_bytes(Line(self.desk), copy.to_bytes()))

    def part(self) -> None:
        copy = self.draw.choice(self.copies)
        line = Line(self.desk, self.draw.choice(MANNERS))
        copy._session = line
        line.ask([copy])

    def sync(self) -> None:
        copy = self.draw.choice(self.copies)
        copy._session = Line(self.desk, self.draw.choice(MANNERS))
        copy.sync()
        assert copy.complete
        query_id = self.soup.query(copy.key)
        truth = again(self.soup.invoke, query_id).to_table()
        assert copy.to_arrow().to_pydict() == truth.to_pydict(), (copy.key, FORMS[int(copy.key[1:])])


def some_entries(view: StreamView, low: int, high: int) -> VersionEntries:
    """The entries of a range, as if one of them had left its chunk."""
    entries = entries_between(view, low, high)
    return entries._replace(all=not len(entries.ids))


@pytest.mark.parametrize("number", range(scaled(3)))
def test_a_copy_of_a_table_equals_the_invocation(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MOST_TUPLES", 70)
    monkeypatch.setattr(rows_since, "MOST_ENDED", 9)
    if number % 2:
        monkeypatch.setattr(versions_since, "entries_between", some_entries)
    with replayable(SEED + number):
        play = Play(random.Random(SEED + number), tmp_path)
        for _ in range(60):
            play.step()
        for copy in play.copies:
            play.copies = [copy]
            play.sync()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    soup = RestartingPSoup(EngineConfig(chunk_rows=64), VirtualClock(10**15), tmp_path / "data")
    soup.execute("CREATE TABLE ads (k BIGINT, price BIGINT, PRIMARY KEY (k)) HISTORY 1 HOUR DELETED FOR 10 DAYS")
    soup.register("SELECT k FROM ads WHERE price > 5", key="dear")
    upsert(soup, range(1_000), 9)
    return Desk(soup, tmp_path)


def upsert(soup: RestartingPSoup, keys: range, price: int) -> None:
    soup.push("ads", pa.table({"k": keys, "price": [price] * len(keys)}))


def change_of(copy: AnswerCopy) -> sync_pb2.Change:
    """The change of the last reply on a copy's line."""
    reply = copy._session.reply
    raw = reply.body
    if reply.compression == sync_pb2.COMPRESSION_ZSTD:
        raw = pa.Codec("zstd").decompress(raw, reply.size, asbytes=True)
    return sync_pb2.SyncBody.FromString(raw).outcomes[0].change


def test_a_change_names_only_the_rows_that_leave_and_come(desk: Desk) -> None:
    copy = AnswerCopy(Line(desk), "", key="dear")
    copy.sync()
    assert len(copy) == 1_000
    upsert(desk.soup, range(10, 12), 1)
    desk.soup.push("ads", pa.table({"k": [500, 2_000], "_deleted": [True, True]}))
    upsert(desk.soup, range(1_000, 1_001), 7)
    desk.soup.clock.advance(seconds=7_200)  # HISTORY has passed
    copy.sync()
    change = change_of(copy)
    assert (change.rows, change.reset) == (1, sync_pb2.RESET_UNSPECIFIED)
    assert [*accumulate(change.keep)] == [0, 10, 12, 500, 501, 1_000]
    assert sorted(copy.to_arrow()["k"].to_pylist()) == [n for n in range(1_001) if n not in (10, 11, 500)]


def test_a_change_that_does_not_match_is_empty(desk: Desk) -> None:
    copy = AnswerCopy(Line(desk), "", key="dear")
    copy.sync()
    upsert(desk.soup, range(3_000, 3_010), 1)
    upsert(desk.soup, range(3_000, 3_010), 2)
    token = token_of(copy)
    copy.sync()
    assert token_of(copy) == token and change_of(copy).ByteSize() < 20


def test_a_token_older_than_deleted_for_is_reset(desk: Desk) -> None:
    copy, old, older = (AnswerCopy(Line(desk), "", key="dear") for _ in range(3))
    for each in (copy, old, older):
        each.sync()
    desk.soup.push("ads", pa.table({"k": [3_000], "price": [1]}))
    for _ in range(3):
        desk.soup.clock.advance(seconds=6 * 86_400)
        assert copy.sync().reset == "", "a copy that asks in time is never reset"
        desk.soup.push("ads", pa.table({"k": [3_000], "price": [1]}))
    assert (old.sync().reset, len(old)) == ("too old", 1_000)
    desk.soup.execute("ALTER TABLE ads DELETED FOR 365 DAYS")
    assert (older.sync().reset, copy.sync().reset) == ("too old", ""), "a longer DELETED FOR finds no lost deletions"


@pytest.mark.seeded("a start takes an earlier entry for the one before an entry")
def test_versions_that_left_before_a_restart_leave_copies_and_followers(desk: Desk) -> None:
    copy = AnswerCopy(Line(desk), "", key="dear")
    copy.sync()
    upsert(desk.soup, range(960), 8)  # these entries end the versions of the copy
    desk.soup.clock.advance(seconds=7_200)
    upsert(desk.soup, range(5_000, 5_001), 1)
    desk.soup.maintain()
    desk.restart()
    view = desk.soup.engine.snapshot().stream("ads", desk.soup.tenant)
    assert view.thinned
    place = kept_from(view, FollowPlace(1_000), desk.soup.clock.now())
    assert place == FollowPlace(1_920), "the log has the later entries"
    copy.sync()
    truth = again(desk.soup.invoke, desk.soup.query("dear")).to_table()
    assert len(truth) == 1_000 and copy.to_arrow().to_pydict() == truth.to_pydict()
