"""Patches of a table: the values that they keep, in stream order, after a restart, and beside other rows of a batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.errors import Conflict, InvalidBatch, ResourceExhausted
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_testing.engines.recorded import RecordingPSoup, replayed
from psoup_testing.engines.restarts import making
from psoup_testing.oracles.questions import again, rows_of

CONFIG = EngineConfig(chunk_rows=64, piece_rows=16)
ALL = "SELECT k, price, place FROM t ORDER BY k"


def table(**columns: Any) -> pa.Table:
    """A batch of patches."""
    return pa.table({**columns, "_patch": [True] * len(columns["k"])})


def held(soup: LocalPSoup) -> list[tuple[Any, ...]]:
    """The rows of the table."""
    return rows_of(again(soup.ask, ALL))


@pytest.fixture
def soup() -> RecordingPSoup:
    """A table with two rows."""
    soup = RecordingPSoup(CONFIG, VirtualClock(0))
    soup.execute("CREATE TABLE t (k TEXT PRIMARY KEY, price BIGINT, place TEXT)")
    soup.push("t", pa.table({"k": ["UA", "DL"], "price": [1, 5], "place": ["x", "y"]}))
    return soup


def test_a_patch_keeps_the_columns_that_its_batch_lacks(soup: RecordingPSoup) -> None:
    soup.push("t", table(k=["UA", "WN"], price=[2, 7]))
    assert held(soup) == [("DL", 5, "y"), ("UA", 2, "x"), ("WN", 7, None)]
    soup.push("t", table(k=["UA"], place=pa.nulls(1)))
    assert held(soup) == [("DL", 5, "y"), ("UA", 2, None), ("WN", 7, None)], "a NULL is a value"
    soup.push("t", table(k=["DL"]))
    assert held(soup)[0] == ("DL", 5, "y"), "a patch of no column is a version like the one before"
    soup.check()


def test_patches_and_other_rows_of_one_batch_follow_each_other(soup: RecordingPSoup) -> None:
    batch = pa.table(
        {
            "k": ["UA", "UA", "UA", "UA", "DL", "DL"],
            "price": [2, 3, None, 4, 6, 7],
            "_patch": [True, True, True, False, True, None],
            "_deleted": [False, True, False, False, None, None],
        }
    )
    assert soup.push("t", batch.slice(0, 1)).replaced == 0 and held(soup)[1] == ("UA", 2, "x")
    assert soup.push("t", batch.slice(1, 2)).replaced == 1, "a deletion, then a patch"
    assert held(soup)[1] == ("UA", None, None)
    assert soup.push("t", batch).replaced == 4
    assert held(soup) == [("DL", 7, None), ("UA", 4, None)], "the last row of each key is whole"


def test_a_chain_of_patches_of_one_key(soup: RecordingPSoup) -> None:
    """More patches of a key than a chunk has rows, in one batch and in many."""
    soup.push("t", table(k=["UA"] * 100, price=list(range(100))))
    for number in range(70):
        soup.push(
            "t", table(k=["UA"], **{("price", "place")[number % 2]: pa.array([number, str(number)][number % 2 :][:1])})
        )
    assert held(soup) == [("DL", 5, "y"), ("UA", 68, "69")]
    soup.check()


@pytest.mark.seeded("a patch that takes values of a later version")
@pytest.mark.parametrize("run_length", [1, 100])
def test_a_patch_takes_values_of_the_version_before_it_in_stream_order(run_length: int, tmp_path: Path) -> None:
    """Patches come before rows of earlier and of later times. A restart finds the same values."""
    # time      1 s        2 s        3 s        4 s
    # UA        price 1    place x    price -    price 4
    # arrival   4th        2nd        1st        3rd
    with making(tmp_path) as made:
        soup = made(CONFIG, VirtualClock(100 * SECOND))
        soup.execute(
            "CREATE TABLE t (k TEXT PRIMARY KEY, price BIGINT, place TEXT, at TIMESTAMP)"
            " TIMESTAMP BY at LATENESS 50 SECONDS FIRST VERSION FROM START"
        )

        def at(second: int) -> pa.Array:
            return pa.array([second * SECOND], pa.timestamp("us"))

        soup.push("t", table(k=["UA"], at=at(3), price=pa.nulls(1)))
        soup.push("t", table(k=["UA"], at=at(2), place=["x"]))
        soup.push("t", table(k=["UA"], at=at(4), price=[4]))
        soup.push("t", pa.table({"k": ["UA"], "at": at(1), "price": [1]}))
        if run_length == 1:
            soup.restart()
        soup.execute("ALTER TABLE t ADD n BIGINT")
        soup.push("t", table(k=["UA"], at=at(2), n=[9]))
        soup.heartbeat("t", 10 * SECOND)
        sql = "SELECT price, place, n FROM t"
        versions = [rows_of(again(soup.ask, sql, time * SECOND)) for time in range(1, 5)]
        assert versions == [[(1, None, None)], [(1, "x", 9)], [(None, "x", 9)], [(4, "x", 9)]]
        assert soup.push("t", table(k=["UA"], at=at(3), price=[3]), refused="count").late == 1
        soup.restart()
        assert [rows_of(again(soup.ask, sql, time * SECOND)) for time in range(1, 5)] == versions
        soup.check()


def test_a_replay_repeats_patches(soup: RecordingPSoup) -> None:
    soup.push("t", table(k=["UA"], price=[2]))
    soup.push("t", table(k=["UA", "WN"], place=["z", "w"]))
    wanted = held(soup)
    for run_length in (1, 100):
        soup.engine, soup.admission = replayed(soup.events, CONFIG, run_length)
        assert held(soup) == wanted == [("DL", 5, "y"), ("UA", 2, "z"), ("WN", None, "w")]


def test_patches_find_versions_in_stored_and_thinned_chunks(tmp_path: Path) -> None:
    with making(tmp_path) as made:
        soup = made(CONFIG, VirtualClock(10**15))
        soup.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, price BIGINT, place TEXT) HISTORY 1 SECOND")
        soup.push("t", pa.table({"k": range(32), "price": range(32), "place": list(map(str, range(32)))}))
        for _ in range(6):
            soup.clock.advance(seconds=2)
            soup.push("t", pa.table({"k": range(8, 32), "price": range(8, 32), "place": ["new"] * 24}))
            soup.maintain()
        (view,) = soup.engine.snapshot().by_id.values()
        assert any(entry.data.places.left is not None for entry in view.chunks), "no chunk is thinned"
        for _ in range(2):
            soup.restart()
            soup.push("t", table(k=[3, 30, 99], price=[-3, -30, -99]))
            assert held(soup)[3] == (3, -3, "3")
            assert held(soup)[30:] == [(30, -30, "new"), (31, 31, "new"), (99, -99, None)]
        soup.check()


def test_a_batch_of_patches_is_taken_once(soup: RecordingPSoup) -> None:
    first = soup.push("t", table(k=["UA"], price=[2]), "p", 1, 0)
    again_ = soup.push("t", table(k=["UA"], price=[2]), "p", 1, 0)
    assert (first.duplicate, again_.duplicate) == (False, True) and held(soup)[1] == ("UA", 2, "x")
    for other in (pa.table({"k": ["UA"], "price": [2]}), table(k=["UA"], price=[2], place=pa.nulls(1, pa.string()))):
        with pytest.raises(Conflict, match="number 0 was used for another payload"):
            soup.push("t", other, "p", 1, 0)
    with pytest.raises(InvalidBatch):
        soup.push("t", table(k=["UA"], price=["cheap"]), "p", 1, 1)
    assert soup.push("t", table(k=["UA"], price=[3]), "p", 1, 1).accepted == 1
    assert held(soup)[1] == ("UA", 3, "x")


def test_wrong_patches_are_refused_by_name(soup: RecordingPSoup) -> None:
    soup.execute("CREATE TABLE n (k TEXT PRIMARY KEY, v BIGINT NOT NULL, w BIGINT)")
    soup.execute("CREATE TABLE o (k TEXT PRIMARY KEY, _patch BOOLEAN)")
    soup.execute("CREATE STREAM s (k TEXT)")
    for name, batch, wanted in (
        ("n", table(k=["a"], w=[1]), "the patches lack the column 'v', which is NOT NULL in table 'n'"),
        ("n", table(k=["a"], v=pa.nulls(1)), "row 0: 'v' is NULL, but table 'n' says NOT NULL"),
        ("n", pa.table({"k": ["a"], "v": [1], "_patch": ["yes"]}), "column '_patch' is BOOLEAN, but the batch has str"),
        ("n", table(v=[1], k=[None]), "row 0: 'k' is NULL; it is the primary key of table 'n'"),
        ("n", pa.table({"v": [1], "_patch": [True]}), "column 'k' is missing"),
        ("n", pa.table({"k": ["a"], "v": [1], "_first": [True]}), "the table has no column '_first'"),
        ("s", table(k=["a"]), "the stream has no column '_patch'"),
    ):
        with pytest.raises(InvalidBatch) as refused:
            soup.push(name, batch)
        assert wanted in str(refused.value)
    soup.push("n", table(k=["a"], v=[1]))
    soup.push("o", table(k=["a"]))
    assert rows_of(soup.ask("SELECT k, v, w FROM n")) == [("a", 1, None)]
    assert rows_of(soup.ask("SELECT * FROM o")) == [("a", True)], "a column of the table has the name"


def test_texts_that_patches_keep_are_charged_before_they_are_stored() -> None:
    """A few bytes of patches may keep megabytes of texts. The budget knows so when they come."""
    soup = LocalPSoup(EngineConfig(memory_bytes=20_000_000), VirtualClock(0), verify="all")
    soup.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, n BIGINT, long TEXT)")
    soup.push("t", pa.table({"k": [1, 2], "n": [0, 0], "long": ["x" * 100_000, "short"]}))
    before = soup.admission.reserved_bytes
    many = table(k=[1] * 1_000, n=range(1_000))
    with pytest.raises(ResourceExhausted, match="100,000,000 of them for texts that patches keep: send fewer patches"):
        soup.push("t", many)
    soup.push("t", table(k=[1] * 50, n=range(50)))
    held_bytes = soup.admission.reserved_bytes - before
    assert 5_000_000 < held_bytes < 5_050_000, "each of the versions has the text"
    soup.push("t", table(k=range(2, 22), n=range(20)))
    assert soup.admission.reserved_bytes - before - held_bytes < 10_000, "what was reserved is given back"
    soup.check()


def test_patches_that_wait_keep_their_reserved_bytes() -> None:
    """A long text that comes before waiting patches, in event time, reserves bytes for them."""
    soup = LocalPSoup(EngineConfig(memory_bytes=20_000_000, ahead=10**15), VirtualClock(0), verify="all")
    soup.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, long TEXT, at TIMESTAMP) TIMESTAMP BY at LATENESS 1 HOUR")

    def batch(times: range, **columns: Any) -> pa.Table:
        return pa.table({"k": [1] * len(times), "at": pa.array(times, pa.timestamp("s")), **columns})

    soup.push("t", table(k=[1] * 100, at=pa.array(range(10, 110), pa.timestamp("s"))))
    small = soup.admission.reserved_bytes
    with pytest.raises(ResourceExhausted, match="30,000,000 of them for texts that patches keep"):
        soup.push("t", batch(range(1), long=["x" * 300_000]))
    soup.push("t", batch(range(1), long=["x" * 50_000]))
    assert soup.admission.reserved_bytes - small > 5_000_000
    soup.heartbeat("t", 60 * SECOND)
    soup.check()
    soup.heartbeat("t", 500 * SECOND)
    assert 100 * 50_000 < soup.admission.reserved_bytes - small < 102 * 50_000
    soup.check()


def test_a_patch_keeps_the_time_at_which_its_row_expires() -> None:
    soup = LocalPSoup(CONFIG, VirtualClock(0))
    soup.execute("CREATE TABLE t (k TEXT PRIMARY KEY, n BIGINT, until TIMESTAMP) EXPIRES BY until")
    until = pa.array([10, 10], pa.timestamp("s"))
    soup.push("t", pa.table({"k": ["a", "b"], "n": [1, 2], "until": until}))
    soup.push("t", table(k=["a"], n=[3]))
    soup.push("t", table(k=["b"], until=pa.array([20], pa.timestamp("s"))))
    soup.clock.advance(seconds=15)
    soup.maintain()
    assert rows_of(again(soup.ask, "SELECT k, n FROM t")) == [("b", 2)]
    soup.push("t", table(k=["a"], until=pa.array([30], pa.timestamp("s"))))
    assert rows_of(again(soup.ask, "SELECT k, n FROM t ORDER BY k")) == [("a", None), ("b", 2)], "its values are gone"
