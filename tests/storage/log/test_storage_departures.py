"""Queries and streams that are gone leave the log while it is used: it grows with what stands."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pyarrow as pa
import pytest

from psoup.answer.describe import list_queries
from psoup.config import EngineConfig
from psoup.errors import Internal, NotFound, ResourceExhausted
from psoup.events.commands import RegisterMany, Unregister
from psoup.events.events import RegisteredMany
from psoup.work.clock import VirtualClock
from psoup_storage import DurableStore, MemoryStore
from psoup_storage.durable.log import departures
from psoup_storage.durable.sqlite.database import Database
from psoup_storage.durable.tools.doctor import examine
from psoup_testing.engines.admission_gate import Gate
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.suite.sweeps import swept

CONFIG = EngineConfig(chunk_rows=64, piece_rows=64)
ONE = "SELECT x FROM s WHERE x = ?"
TWO = "SELECT x FROM s WHERE x = ? OR x < 0"
"""Its queries are not kept as columns."""


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departures, "SLICE", 8)


@pytest.fixture
def soup(tmp_path: Path) -> Iterator[RestartingPSoup]:
    made = RestartingPSoup(CONFIG, VirtualClock(0), tmp_path / "data")
    made.execute("CREATE STREAM s (x BIGINT)")
    made.execute("CREATE STREAM t (x BIGINT)")
    yield made
    made.engine.check()
    made.store.close()


def size(soup: RestartingPSoup) -> tuple[int, int]:
    """Rows of the log with what lies beside them, and their bytes."""
    figures = (
        "SELECT count(*), ifnull(sum(length(body)), 0) FROM log",
        "SELECT count(*), ifnull(sum(length(content)), 0) FROM slices",
        "SELECT count(*), ifnull(sum(length(queries)), 0) FROM gone",
    )
    found = [next(soup.store._database.query(figure)) for figure in figures]
    return sum(rows for rows, _ in found), sum(count for _, count in found)


def standing(soup: RestartingPSoup) -> list[int]:
    """The queries that there are."""
    return [record.query_id for record in list_queries(soup.engine.snapshot(), tenant="default", after=-1, limit=999)]


def churn(soup: RestartingPSoup, number: int) -> int:
    """Queries come and go: one by one, in blocks of each form, with request IDs and without; returns the last ID."""
    request = f"round {number}" if number % 2 else ""
    single = [soup.register(f"SELECT x FROM s WHERE x > {number}", request and f"{request} {n}") for n in range(3)]
    blocks = [
        soup.register_many(ONE, [[n] for n in range(300)] if number % 4 == 0 else [[n] for n in range(20)], request),
        soup.register_many(TWO, [[n] for n in range(9)]),
        soup.register_many([f"SELECT x FROM {name} WHERE x <> {number}" for name in "sstt"]),
    ]
    going = [*single, *(query for block in blocks for query in block)]
    random.Random(number).shuffle(going)
    at_once = len(going) * (number % 3) // 3
    for part in (going[: at_once // 2], going[at_once // 2 : at_once]):
        soup.unregister_many(part)
    for query in going[at_once:]:
        soup.unregister(query)
    return max(going)


@pytest.mark.seeded("F12: queries that are gone stay in the log")
@pytest.mark.parametrize("restarts", swept([0, 3], fast=(1,)))
def test_the_log_does_not_grow_with_queries_that_come_and_go(soup: RestartingPSoup, restarts: int) -> None:
    kept = soup.register("SELECT x FROM s WHERE x = 5")
    block = soup.register_many(ONE, [[n] for n in range(10)])
    soup.unregister(block[4])
    sizes = []
    for number in range(6):
        last = churn(soup, number)
        if restarts and number % restarts == 0:
            soup.restart()
        sizes.append(size(soup))
    assert max(rows for rows, _ in sizes) < 40
    assert max(count for _, count in sizes) < 16_000
    soup.restart()
    assert size(soup)[0] < 15
    assert standing(soup) == [kept, *block[:4], *block[5:]]
    assert soup.register("SELECT x FROM s") == last + 1, "an ID is given out once"
    assert examine_copy(soup).well


def examine_copy(soup: RestartingPSoup) -> Any:
    """What the doctor says of the directory as a kill would leave it."""
    target = soup.path.parent / "copy"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(soup.path, target, ignore=shutil.ignore_patterns("lock"))
    return examine(target)


@pytest.mark.long
def test_streams_that_come_and_go_leave_the_log_with_their_queries(soup: RestartingPSoup) -> None:
    for number in range(40):
        soup.execute(f"CREATE STREAM u (x BIGINT, y{number} TEXT)")
        soup.execute("ALTER STREAM u ADD COLUMN z BIGINT")
        queries = soup.register_many(["SELECT x FROM u", "SELECT x FROM s", "SELECT x FROM u WHERE x > 3"])
        soup.push("u", pa.table({"x": [1]}))
        for query in queries:
            soup.unregister(query)
        soup.execute("DROP STREAM u")
    assert size(soup)[0] < 60
    soup.restart()
    assert size(soup)[0] < 20
    stays = soup.register_many(["SELECT x FROM s", "SELECT x FROM t"])
    soup.unregister(stays[1])
    soup.execute("DROP STREAM t")
    for number in range(12):
        soup.unregister(soup.register(f"SELECT x FROM s WHERE x > {number}"))
    soup.restart()
    assert standing(soup) == [stays[0]]


@pytest.mark.long
def test_a_block_shows_those_that_stand_and_no_others(soup: RestartingPSoup) -> None:
    """Every form of a block, as columns and not, with answers before and after a restart."""
    soup.push("s", pa.table({"x": [3, 4, 5, 89]}))
    for template, count in ((ONE, 90), (TWO, 90), (ONE, 12)):
        block = soup.register_many(template, [[n] for n in range(count)], f"{template} {count}")
        for query in [*block[:5], *block[-1:]]:
            soup.unregister(query)
        soup.unregister(soup.register("SELECT x FROM s"))
        for number in range(8):  # so that all of that is forgotten
            soup.unregister(soup.register(f"SELECT x FROM s WHERE x > {number}"))
        soup.restart()
        [event] = [e for e in soup.store.read() if isinstance(e, RegisteredMany) and e.first_id == block[0]]
        assert list(event.gone) == [0, 1, 2, 3, 4, count - 1]
        assert soup.invoke(block[5], window="BEGIN (START)").to_table().column("x").to_pylist() == [5]
        with pytest.raises(NotFound):
            soup.invoke(block[4])
        with pytest.raises(NotFound):
            soup.submit(Unregister(block[0]))
        for query in block[5:-1]:
            soup.unregister(query)
        soup.restart()


def come_and_go(soup: RestartingPSoup, steps: int) -> None:
    """Queries come in blocks and alone, and go alone, at once, and with their streams."""
    churning = random.Random(7)
    standing: list[int] = []
    for step in range(steps):
        if step % 6 == 0:
            standing += soup.register_many((ONE, TWO)[step % 4 // 2], [[n] for n in range(6)], f"r{step}")
        elif step % 6 == 1:
            standing.append(soup.register(f"SELECT x FROM t WHERE x > {step}"))
            standing += soup.register_many(["SELECT t.x FROM s, t WHERE s.x = t.x", "SELECT x FROM s"])
        elif step % 12 == 2:
            soup.execute("CREATE STREAM u (x BIGINT)")
            soup.register_many([f"SELECT x FROM {name} WHERE x > {step}" for name in "uu"])
            standing.append(soup.register_many(["SELECT x FROM t", "SELECT x FROM u"])[0])
            soup.register("SELECT t.x FROM t, u WHERE t.x = u.x")
            soup.drop_stream("u", cascade=True)
        elif step % 6 == 4:
            going = churning.sample(standing, churning.randrange(len(standing)))
            soup.unregister_many(going, request_id=f"gone {step}" if step % 12 == 4 else "")
            standing = [query for query in standing if query not in going]
        elif standing:
            soup.unregister(standing.pop(churning.randrange(len(standing))))


@pytest.mark.long
def test_a_crash_at_any_transaction_leads_to_the_same_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kill leaves of each moment is opened: admission, and which queries stand, are those of that moment."""
    soup = RestartingPSoup(CONFIG, VirtualClock(0), tmp_path / "data")
    soup.execute("CREATE STREAM s (x BIGINT)")
    soup.execute("CREATE STREAM t (x BIGINT)")
    images: list[tuple[Path, Any]] = []
    transaction = Database.transaction

    def kill(database: Database) -> Any:
        if database is soup.store._database:
            target = tmp_path / f"image-{len(images)}"
            shutil.copytree(soup.path, target, ignore=shutil.ignore_patterns("lock"))
            images.append((target, soup.store.sequence))
        return transaction(database)

    states = {2: soup.admission.state()}
    with monkeypatch.context() as patched:
        patched.setattr(Database, "transaction", kill)
        submit = soup.submit

        def noting(command: Any) -> Any:
            done = submit(command)
            states[soup.store.sequence] = soup.admission.state()
            return done

        patched.setattr(soup, "submit", noting)
        come_and_go(soup, 60)
    soup.store.close()
    assert len(images) > 60, "slices are transactions of their own"
    for path, sequence in images[::9]:
        again = RestartingPSoup(CONFIG, VirtualClock(0), path)
        assert again.admission.state() == states[sequence]
        again.engine.check()
        again.store.close()


def test_the_answers_to_removals_stay_and_no_more_of_them(tmp_path: Path) -> None:
    config = EngineConfig(kept_removals=3)
    soup = RestartingPSoup(config, VirtualClock(0), tmp_path / "data")
    soup.execute("CREATE STREAM s (x BIGINT)")
    for number in range(12):
        block = soup.register_many(ONE, [[n] for n in range(300)])
        assert soup.unregister_many(block, request_id=f"request {number}") == 300
        if number % 5 == 4:
            soup.restart()
    soup.register("SELECT x FROM s")
    soup.restart()
    soup.restart()
    assert size(soup) < ((12), 1_500)
    sequence = soup.admission.sequence
    assert soup.unregister_many(block, request_id="request 11") == 300
    assert soup.admission.sequence == sequence
    with pytest.raises(NotFound):
        soup.unregister_many(block, request_id="request 8")
    soup.store.close()


def test_without_room_it_is_done_later(soup: RestartingPSoup, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: departures.Departures, last: int) -> bool:
        raise ResourceExhausted("no room", reason="DISK_FULL")

    with monkeypatch.context() as patched:
        patched.setattr(departures.Departures, "forget", full)
        for number in range(30):
            soup.unregister(soup.register(f"SELECT x FROM s WHERE x > {number}"))
    assert size(soup)[0] >= 60
    for number in range(60):
        soup.unregister(soup.register(f"SELECT x FROM s WHERE x > {number}"))
    assert size(soup)[0] < 40


def test_what_says_which_queries_are_gone_is_guarded(soup: RestartingPSoup, tmp_path: Path) -> None:
    block = soup.register_many(ONE, [[n] for n in range(20)])
    for query in block[:9]:
        soup.unregister(query)
    soup.register("SELECT x FROM s")
    assert examine_copy(soup).well
    for damage, said in [
        ("UPDATE gone SET queries = zeroblob(length(queries))", "gone is damaged"),
        ("UPDATE gone SET sequence = sequence + 1", "there is no such block"),
    ]:
        examine_copy(soup)
        copy = soup.path.parent / "copy"
        with closing(apsw.Connection(str(copy / "psoup.db"))) as connection:
            connection.execute(damage)
            assert connection.changes() == 1
        assert said in "; ".join(finding.what for finding in examine(copy).findings)
        with pytest.raises(Internal) as refused, closing(DurableStore(copy)) as store:
            list(store.read())
        assert refused.value.reason == "DATA_DAMAGED"


def test_without_a_disk_a_block_goes_with_its_last_query() -> None:
    gate, store = Gate(), MemoryStore()
    gate.create("CREATE STREAM s (x BIGINT)")
    store.append(gate.events)
    before = store.bytes
    gate.send(RegisterMany([ONE], [[1], [2], [3]]))
    gate.send(RegisterMany([ONE], [[1], [2]]))
    for query in (2, 4, 1, 5, 3):
        gate.unregister(query)
    store.append(gate.events[1:])
    assert (store.bytes, len(list(store.read()))) == (before, 1)
    store.check()
