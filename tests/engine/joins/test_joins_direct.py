"""Joins by equalities and bands of columns, found and shown directly, equal what routes find and expressions show.

Others are found by routes where a test says so; an ORDER BY takes the other way to the columns.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.answer.invoke import Answer, invoke
from psoup.config import EngineConfig, JoinLimits
from psoup.errors import ResourceExhausted
from psoup.execution.join import small_join
from psoup.execution.join.join_batch import JoinedMessage
from psoup.execution.rows.record_batch import Message, read
from psoup.execution.ways import JOIN
from psoup.joins import hash_pairs
from psoup.joins.budget import JoinBudget
from psoup.joins.hash_pairs import PairTest, SideKeys, pairs_by_key
from psoup.kernels.join.small_join import answer_located
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget
from psoup.work.runner import serial
from psoup_service.host.runner import TaskPool
from psoup_service.host.shared_bytes import SharedBytes
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again, same_bits
from psoup_testing.oracles.ways import only, recorded
from psoup_testing.suite.sweeps import swept

ROWS = 300
DAY = dt.date(2020, 2, 28)
KEYS: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "few": ("BIGINT", pa.int64(), [3, 4, -7, 2**62]),
    "near": ("BIGINT", pa.int64(), list(range(40, 140))),
    "far": ("BIGINT", pa.int64(), [-(2**63), 2**63 - 1, *range(0, 2**60, 2**54)]),
    "number": ("DOUBLE", pa.float64(), [0.0, -0.0, 1.5, -1.5, float("nan"), float("inf"), -float("inf")]),
    "money": ("DECIMAL(9,2)", pa.decimal128(9, 2), [Decimal(n) / 100 for n in range(-20, 20)]),
    "day": ("DATE", pa.date32(), [DAY + dt.timedelta(days=n) for n in range(30)]),
    "name": ("TEXT", pa.string(), ["", "a", "b", *(f"{n} is longer than eight bytes, {n % 7}" for n in range(40))]),
    "at": ("TIMESTAMP", pa.timestamp("us"), [dt.datetime(2020, 2, 28, 0, 0, n) for n in range(30)]),
}


def _soup(name: str, null_share: float, **config: int) -> LocalPSoup:
    """Streams r and s of several chunks, with a key of some kind, and columns of other kinds."""
    soup = LocalPSoup(EngineConfig(chunk_rows=64, shape=EAGER, **config), VirtualClock(100))
    rng = np.random.default_rng(7)
    sql, arrow, values = KEYS[name]
    for stream in "rs":
        soup.execute(f"CREATE STREAM {stream} (k {sql}, n BIGINT, f BOOLEAN, d DATE, m DECIMAL(5,1), x DOUBLE, w TEXT)")
        columns = {
            "k": [values[at] for at in rng.integers(0, len(values), ROWS)],
            "n": rng.integers(-9, 9, ROWS).tolist(),
            "f": (rng.random(ROWS) < 0.5).tolist(),
            "d": [DAY + dt.timedelta(days=int(days)) for days in rng.integers(0, 99, ROWS)],
            "m": [Decimal(int(tenths)) / 10 for tenths in rng.integers(-99, 99, ROWS)],
            "x": rng.normal(size=ROWS).tolist(),
            "w": [["", "é", "some words", "more words than eight bytes"][at] for at in rng.integers(0, 4, ROWS)],
        }
        types = [arrow, pa.int64(), pa.bool_(), pa.date32(), pa.decimal128(5, 1), pa.float64(), pa.string()]
        held = {
            name: pa.array([None if rng.random() < null_share else value for value in own], kind)
            for (name, own), kind in zip(columns.items(), types, strict=True)
        }
        for start in range(0, ROWS, 50):
            soup.push(stream, pa.table(held).slice(start, 50))
            soup.maintain()
    return soup


SELECT = "r.k, s.k AS l, r.n, s.f, r.f AS g, s.w, s.d, r.m, r.w AS v, s.x, r._id, s._time AS t, s._id AS j"
OTHERWISE = "AND (r.n + s.n > -100 OR r.n IS NULL OR s.n IS NULL)"
SLOWLY = f"{OTHERWISE} ORDER BY r._id, j"


@pytest.mark.seeded("NULLs join")
@pytest.mark.parametrize(("null_share", "small"), swept([(0.1, 16_384), (0.1, 0), (0.0, 16_384)], fast=2))
@pytest.mark.parametrize("name", swept(KEYS, fast=range(0, 8, 3)))
def test_direct_joins_equal_others(name: str, null_share: float, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of small sides pairs are found at once and gathered from chunks; of others in pieces, and from whole columns."""
    monkeypatch.setattr("psoup.execution.join.small_pairs._SMALL", small)
    monkeypatch.setattr("psoup.execution.join.join_batch._PUT_FROM", small)
    soup = _soup(name, null_share)
    for where, left, right in (
        ("", "", ""),
        ("AND r.n > 7", "[ROWS 100]", "[ROWS 3]"),
        ("AND r.n > 6 AND s.n > 7", "", ""),
        ("AND s.n > 8", "[ROWS 10]", "[ROWS 250]"),
        ("AND s.n > 50", "", ""),
    ):
        sources = f"r {left}, s {right}"
        direct = again(soup.ask, f"SELECT {SELECT} FROM {sources} WHERE r.k = s.k {where}")
        table = direct.to_table()
        table.validate(full=True)
        assert table.schema == direct.schema
        slow = again(soup.ask, f"SELECT {SELECT} FROM {sources} WHERE r.k = s.k {where} {OTHERWISE} ORDER BY r._id, j")
        assert _same(table, by_routes(slow)), where
        few = again(soup.ask, f"SELECT {SELECT} FROM {sources} WHERE s.k = r.k {where} LIMIT 7 OFFSET 3")
        assert _same(few.to_table(), table.slice(3, 7)), where


def by_routes(answer: Answer) -> pa.Table:
    """The rows as the evaluator of all joins finds them."""
    with pytest.MonkeyPatch.context() as patch:
        only(patch, JOIN, "routed_join")
        return answer.to_table()


def _same(table: pa.Table, wanted: pa.Table) -> bool:
    """Whether all values are the same: NaN equals itself, and 0.0 is not -0.0."""
    return same_bits(table, wanted) or str(table.to_pydict()) == str(wanted.to_pydict())


NUMBERS = "r.k, s.k AS l, r.n, s.f, r.f AS g, s.d, r.m, s.x, r._id, s._time AS t, s._id AS j"


@pytest.mark.parametrize("null_share", swept([0.1, 0.0], fast=1))
@pytest.mark.parametrize("name", swept((name for name in KEYS if name != "name"), fast=range(0, 7, 3)))
def test_small_sides_are_paired_at_once(name: str, null_share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Registered, so that their sides are in the results; whole, in batches of seven, and in parts of few bytes."""
    counts = list[int]()
    monkeypatch.setattr(
        small_join, "answer_located", lambda *ask: (made := answer_located(*ask), counts.append(made[0]))[0]
    )
    soup = _soup(name, null_share)
    for where in ("", "AND r.n > 7", "AND r.n > 6 AND s.n > 7", "AND s.n > 50", "AND r.n < 0 AND s.n > -5"):
        query, other = (
            soup.register(f"SELECT {NUMBERS} FROM r [ROWS 130], s [ROWS 201] WHERE r.k = s.k {where} {more}")
            for more in ("", f"{OTHERWISE} ORDER BY r._id, j")
        )
        soup.maintain()
        answer, wanted = again(soup.invoke, query), by_routes(again(soup.invoke, other))
        before, table = len(counts), answer.to_table()
        table.validate(full=True)
        assert _same(table, wanted), where
        assert len(counts) > before or "s.n > 50" in where, where
        assert _same(pa.Table.from_batches(answer.batches(7), answer.schema), wanted), where
        messages = [part for part in answer.messages(max_bytes=900) if isinstance(part, Message)]
        parts = [read(part.gathered(), answer.schema) for part in messages]
        assert _same(pa.Table.from_batches(parts, answer.schema), wanted), where
    assert name in ("few", "far", "number") or max(counts) > 0


BANDS = (
    "s.k BETWEEN r.k AND r.k",
    "s.k > r.k AND s.n > 5",
    "r.k >= s.k AND r.n > 6 AND s.n > 6",
    "s._time BETWEEN r._time - INTERVAL 2 SECONDS AND r._time + INTERVAL 1 SECOND AND r.n > 5",
    "s.up >= r.up - 3 AND s.up < r.up + 5",
    "r.up - 2 > s.up AND s.up + 9 > r.up",
    "s.up + 3 < r.up AND s.up > r.up",
    "s.up <= r.n AND r.n > 5",
    "s.up >= r.up AND s.n <= r.n AND r.n > 5 AND s.n > 5",
    "s.up > r.up + 9223372036854775800",
    "s.n BETWEEN r.n - 1 AND r.n AND r.up < 30",
    "s.at BETWEEN r.at - INTERVAL 1 MINUTE AND r.at",
    "s.at < r.at - INTERVAL 290000 YEARS",
)
"""Also of columns that do not ascend, and with sums that leave the range of their type."""


@pytest.mark.seeded("the edge of a band is left out")
@pytest.mark.parametrize("null_share", swept([0.0, 0.1], fast=(1,)))
def test_direct_bands_equal_others(null_share: float) -> None:
    soup, rng = LocalPSoup(EngineConfig(chunk_rows=64, shape=EAGER), VirtualClock(100)), np.random.default_rng(9)
    for stream in "rs":
        soup.execute(f"CREATE STREAM {stream} (k DOUBLE, n BIGINT, up BIGINT, at TIMESTAMP)")
        columns = {
            "k": rng.choice([0.0, -0.0, 1.5, float("nan"), float("inf")], ROWS),
            "n": rng.integers(-9, 9, ROWS),
            "up": np.sort(rng.integers(0, 200, ROWS)),
            "at": np.sort(rng.integers(0, 10**9, ROWS)).astype("datetime64[us]"),
        }
        held = {name: pa.array(own, mask=rng.random(ROWS) < null_share) for name, own in columns.items()}
        for start in range(0, ROWS, 50):
            soup.push(stream, pa.table(held).slice(start, 50))
            soup.clock.set(100 + 20_000 * start)  # type: ignore[attr-defined]
    for band in BANDS:
        answer = again(soup.ask, f"SELECT r._id, s._id AS j, r.k, s.up, s.at FROM r, s [ROWS 200] WHERE {band}")
        slow = again(soup.ask, f"SELECT r._id, s._id AS j, r.k, s.up, s.at FROM r, s [ROWS 200] WHERE {band} {SLOWLY}")
        table = answer.to_table()
        assert _same(table, by_routes(slow)), band
        assert answer.errors == slow.errors, band
        few = again(soup.ask, f"SELECT r._id, s._id AS j FROM r, s [ROWS 200] WHERE {band} LIMIT 5 OFFSET 9").to_table()
        assert few.equals(table.select(["_id", "j"]).slice(9, 5)), band


SEVERAL = (
    "r.k = s.k AND r.n = s.n",
    "r.w = s.w AND r.k = s.k",
    "r.w = s.w AND r.n = s.n AND r.d = s.d",
    "r.n = s.n AND s.up >= r.up AND s.up < r.up + 20",
    "r.w = s.w AND s.at BETWEEN r.at - INTERVAL 1 MINUTE AND r.at",
    "r.few = s.few AND s.up > r.up AND s.up < r.up + 9",
    "r.n = s.n AND s.up <= r.up AND s.at >= r.at AND s.up + 9223372036854775800 > r.up",
    "r.n = s.n AND s.up BETWEEN r.up AND r.up AND r.few = s.few",
)
"""Of a key that few rows have, or many, which have their bands searched for; NaN, texts, and sums beyond BIGINT."""


@pytest.mark.seeded("the edge of a band is left out")
@pytest.mark.parametrize("null_share", swept([0.0, 0.1], fast=(1,)))
def test_several_factors_equal_others(null_share: float) -> None:
    soup, rng = LocalPSoup(EngineConfig(chunk_rows=64, shape=EAGER), VirtualClock(100)), np.random.default_rng(9)
    for stream in "rs":
        soup.execute(
            f"CREATE STREAM {stream} (k DOUBLE, n BIGINT, up BIGINT, at TIMESTAMP, w TEXT, d DATE, few BIGINT)"
        )
        columns = {
            "k": rng.choice([0.0, -0.0, 1.5, float("nan"), float("inf")], ROWS),
            "n": rng.integers(-9, 9, ROWS),
            "up": np.sort(rng.integers(0, 200, ROWS)),
            "at": np.sort(rng.integers(0, 10**9, ROWS)).astype("datetime64[us]"),
            "w": rng.choice(["", "short", "one text of some length", "one text of some Length"], ROWS),
            "d": rng.integers(0, 3, ROWS).astype("datetime64[D]"),
            "few": rng.integers(0, 2, ROWS),
        }
        held = {name: pa.array(own, mask=rng.random(ROWS) < null_share) for name, own in columns.items()}
        for start in range(0, ROWS, 50):
            soup.push(stream, pa.table(held).slice(start, 50))
    for factors in SEVERAL:
        answer = again(soup.ask, f"SELECT r._id, s._id AS j, r.w, s.up FROM r, s [ROWS 200] WHERE {factors}")
        slow = again(soup.ask, f"SELECT r._id, s._id AS j, r.w, s.up FROM r, s [ROWS 200] WHERE {factors} {SLOWLY}")
        table = answer.to_table()
        assert _same(table, by_routes(slow)), factors
        assert answer.errors == slow.errors, factors
        few = again(soup.ask, f"SELECT r._id, s._id AS j FROM r, s [ROWS 200] WHERE {factors} LIMIT 5 OFFSET 9")
        assert few.to_table().equals(table.select(["_id", "j"]).slice(9, 5)), factors


CONDITIONS = (
    "r.n + s.n > 3",
    "(r.n = 3 OR s.n = 4)",
    "100 / (r.n - s.n) > 9",
    "concat(r.w, s.w) LIKE '%words%é%'",
    "r.n <> s.n AND CAST(concat(r.n, s.w) AS BIGINT) > 2",
    "r.n + s.n > 99",
)
"""Also such as cannot be computed for some rows, and one that none satisfies."""


@pytest.mark.parametrize("small", swept([16_384, 0], fast=1))
@pytest.mark.parametrize(
    "beside", swept(["r.k = s.k", "r.w = s.w AND r.n >= s.n", "r._time <= s._time AND r.n > 7"], fast=1)
)
def test_conditions_beside_keys_and_bands_equal_others(
    beside: str, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("psoup.execution.join.small_pairs._SMALL", small)
    soup, ways = _soup("near", 0.1), recorded(monkeypatch)
    for condition in CONDITIONS:
        sql = f"SELECT r._id, s._id AS j, r.w FROM r, s [ROWS 200] WHERE {beside} AND {condition}"
        answer, slow = again(soup.ask, sql), again(soup.ask, sql)
        table, wanted = answer.to_table(), by_routes(slow)
        assert table.equals(wanted), condition
        assert answer.errors == slow.errors, condition
        assert again(soup.ask, f"{sql} LIMIT 5 OFFSET 9").to_table().equals(table.slice(9, 5)), condition
        counted = again(soup.ask, f"SELECT count(*) AS c FROM r, s [ROWS 200] WHERE {beside} AND {condition}")
        assert counted.to_table().to_pylist() == [{"c": table.num_rows}], condition
    assert {"small_pairs", "key_join", "band_join"} & set(ways)


def test_rows_whose_keys_have_one_hash_are_told_apart() -> None:
    texts = np.frombuffer(b"onetwoone", np.uint8)
    places = texts.__array_interface__["data"][0] + np.array([0, 3, 6])
    hashes, sizes = np.full(3, 77), np.full(3, 3, np.int32)
    side = SideKeys(hashes, None, -(2**63), 2**63 - 1, (places, sizes))
    limits, room = JoinLimits(), JoinBudget(JoinLimits(), ReadBudget())
    ((left, right),) = pairs_by_key(side, side, "w = w", room, limits, [PairTest(side, side)])
    assert [*zip(left.tolist(), right.tolist(), strict=True)] == [(0, 0), (0, 2), (1, 1), (2, 0), (2, 2)]
    numbers = SideKeys(np.array([5, 6, 5]), None, 5, 6)
    ((left, right),) = pairs_by_key(side, side, "a = a AND b = b", room, limits, [PairTest(numbers, numbers)])
    assert [*zip(left.tolist(), right.tolist(), strict=True)] == [(0, 0), (0, 2), (1, 1), (2, 0), (2, 2)]


@pytest.mark.seeded("a hash is not confirmed")
@pytest.mark.parametrize("factors", SEVERAL[:3])
def test_hashes_that_are_all_equal_give_the_same_pairs(factors: str, monkeypatch: pytest.MonkeyPatch) -> None:
    soup = _soup("near", 0.1)
    sql = f"SELECT r._id, s._id AS j, r.w FROM r, s WHERE {factors}"
    expected = again(soup.ask, sql).to_table()
    monkeypatch.setattr(hash_pairs, "hashed", lambda keys: np.zeros(len(keys[0]), np.int64))
    assert again(soup.ask, sql).to_table().equals(expected)
    assert expected.num_rows > 0


def test_messages_keep_to_their_size_and_stand_after_the_last() -> None:
    answer = again(_soup("few", 0.1).ask, f"SELECT {SELECT} FROM r, s WHERE r.k = s.k")
    whole = answer.to_table()
    for rows, size in ((100_000, 10**9), (5_000, 20_000), (7, 10**6)):
        parts = list(answer.messages(rows, size))
        assert all(isinstance(part, JoinedMessage) and part.rows <= rows and part.size <= size for part in parts)
        stream = b"".join([answer.schema_message, *(part.gathered() for part in parts)])  # type: ignore[union-attr]
        with pa.ipc.open_stream(stream) as reader:
            assert reader.read_all().equals(whole)


@pytest.mark.seeded("the bound of a band wraps")
@pytest.mark.parametrize("key", ["", "r.k = s.k AND "])
@pytest.mark.parametrize("end", [2**63 - 1, -(2**63)])
def test_a_bound_beyond_the_range_of_keys_is_not_wrapped(key: str, end: int) -> None:
    """The constant is on the side of `s`, where no sum leaves the range; about the key of `r` it would."""
    soup = LocalPSoup()
    for stream, values in (("r", [end, 0]), ("s", [-20, 20])):
        soup.execute(f"CREATE STREAM {stream} (k BIGINT, t BIGINT)")
        soup.push(stream, pa.table({"k": [1, 1], "t": values}))
    above, below = (
        f"SELECT r.t AS a, s.t AS b FROM r, s WHERE {key}s.t {band}" for band in ("- 5 >= r.t", "+ 5 <= r.t")
    )
    expected = [
        [(a, b) for a in (end, 0) for b in (-20, 20) if b - 5 >= a],
        [(a, b) for a in (end, 0) for b in (-20, 20) if b + 5 <= a],
    ]
    assert [[tuple(row.values()) for row in soup.ask(sql).to_table().to_pylist()] for sql in (above, below)] == expected


def test_expressions_and_texts_are_computed() -> None:
    soup = _soup("near", 0.1)
    both = again(soup.ask, "SELECT r._id, s._id AS j, r.n + s.n AS c FROM r, s WHERE r.k = s.k").to_table()
    assert both.select(["_id", "j"]) == again(soup.ask, "SELECT r._id, s._id AS j FROM r, s WHERE r.k = s.k").to_table()


def test_what_direct_joins_look_at_and_hold_is_bounded_and_given_back() -> None:
    soup = _soup("few", 0.0, join_pairs=2_000)
    with pytest.raises(ResourceExhausted, match=r"by r\.k = s\.k") as caught:
        soup.ask("SELECT r._id FROM r, s WHERE r.k = s.k").to_table()
    assert caught.value.reason == "JOIN_BUDGET"
    assert again(soup.ask, "SELECT r._id FROM r, s WHERE r.k = s.k LIMIT 50").to_table().num_rows == 50
    small = _soup("few", 0.0, join_bytes=5_000)
    with pytest.raises(ResourceExhausted, match="join_mib"):
        small.ask("SELECT r._id FROM r, s WHERE r.k = s.k").to_table()
    for limit, fits in ((1_000_000, True), (20_000, True), (10_000, False)):
        shared = SharedBytes(limit)
        answer = _ask(_soup("few", 0.0), ReadBudget(shared=shared))
        if fits:
            assert answer.to_table().num_rows > 10_000
        else:
            with pytest.raises(ResourceExhausted, match="a join needs"):
                answer.to_table()
        assert shared.used == 0


def _ask(soup: LocalPSoup, budget: ReadBudget) -> Answer:
    query = soup.register("SELECT r.n, s.x FROM r, s WHERE r.k = s.k")
    return invoke(soup.engine.snapshot(), query, tenant=soup.tenant, now=100, budget=budget)


@pytest.mark.long
def test_large_messages_are_gathered_by_several_threads_in_order() -> None:
    """Each has 50,000 rows and more than 400,000 bytes."""
    pool = TaskPool(2)
    soups = [LocalPSoup(clock=VirtualClock(100), run=run) for run in (pool, serial)]
    keys = {name: np.random.default_rng(3).integers(0, 700, 30_000) for name in "rs"}
    tables, shared = [], SharedBytes(200_000_000)
    for soup in soups:
        for name, own in keys.items():
            soup.execute(f"CREATE STREAM {name} (k BIGINT, a BIGINT, f BOOLEAN)")
            soup.push(name, pa.table({"k": own, "a": np.arange(30_000), "f": own > 9}))
        query = soup.register("SELECT r.k, r.a, s.a AS b, s.f, r._id FROM r, s WHERE r.k = s.k")
        budget = ReadBudget(shared=shared)
        answer = again(invoke, soup.engine.snapshot(), query, tenant=soup.tenant, now=100, budget=budget)
        tables.append(pa.Table.from_batches(answer.batches(50_000)))
        first = next(answer.batches())
        assert first.equals(tables[0].slice(0, first.num_rows).combine_chunks().to_batches()[0])
        assert shared.used == 0
    pool.close()
    assert tables[0].num_rows > 1_000_000
    assert tables[0].equals(tables[1])
    assert tables[0].column("a").to_pylist()[::5_000] == sorted(tables[0].column("a").to_pylist()[::5_000])
