"""Frames of RANGE with a distance: random keys, partitions and frames, over all types of keys, equal DuckDB's."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.errors import SqlError
from psoup.local import LocalPSoup
from psoup_testing.oracles.duckdb_answers import normal_rows
from psoup_testing.oracles.questions import again
from psoup_testing.suite.budget import scaled

ROWS = 90
EPOCH = dt.datetime(2024, 2, 27)
TIMES = pa.timestamp("us")
KEYS: dict[str, tuple[str, pa.DataType, list[Any], list[str]]] = {
    "v": ("BIGINT", pa.int64(), [*range(-4, 9), 2**61, -(2**61)], ["0", "1", "3", str(2**61)]),
    "p": ("DECIMAL(9, 2)", pa.decimal128(9, 2), [Decimal(n) / 4 for n in range(-6, 7)], ["0.5", "1", "0.75"]),
    "d": ("DOUBLE", pa.float64(), [0.5, -2.25, 0.0, -0.0, 8.0, math.nan, math.inf], ["0.5", "2", "1e3"]),
    "t": (
        "TIMESTAMP",
        TIMES,
        [EPOCH + dt.timedelta(minutes=7 * n) for n in range(12)],
        ["INTERVAL 7 MINUTES", "INTERVAL '1' HOUR", "INTERVAL 0 SECONDS"],
    ),
    "y": ("DATE", pa.date32(), [(EPOCH + dt.timedelta(days=n)).date() for n in range(9)], ["INTERVAL 2 DAYS"]),
}
CALLS = ("count(*)", "sum(x)", "min(x)", "max(s)", "first_value({key})", "last_value({key})")


def rows(random: Random) -> pa.Table:
    columns: dict[str, pa.Array] = {
        "pos": pa.array(range(ROWS)),
        "g": pa.array([random.choice([1, 2, None]) for _ in range(ROWS)], pa.int64()),
        "x": pa.array([random.choice([*range(20), None]) for _ in range(ROWS)], pa.int64()),
        "s": pa.array([random.choice(["a", "bb", None]) for _ in range(ROWS)]),
    }
    for name, (_, kind, values, _) in KEYS.items():
        columns[name] = pa.array([random.choice([*values, None]) for _ in range(ROWS)], kind)
    return pa.table(columns)


def frame(random: Random, distances: list[str]) -> str:
    """A frame whose ends are in order."""
    before = ["UNBOUNDED PRECEDING", *(f"{distance} PRECEDING" for distance in distances)]
    after = [*(f"{distance} FOLLOWING" for distance in distances), "UNBOUNDED FOLLOWING"]
    if random.random() < 0.2:
        return random.choice(before)
    if random.random() < 0.2:
        return f"BETWEEN {random.choice(distances)} FOLLOWING AND UNBOUNDED FOLLOWING"
    first, last = random.choice([*before, "CURRENT ROW"]), random.choice(["CURRENT ROW", *after])
    return f"BETWEEN {first} AND {last}"


@pytest.mark.parametrize("key", KEYS)
def test_frames_are_those_of_duckdb(key: str) -> None:
    random = Random(key)
    table = rows(random)
    soup, duck = LocalPSoup(EngineConfig(chunk_rows=64)), duckdb.connect(config={"threads": 1})
    columns = ", ".join(f"{name} {kind}" for name, (kind, *_) in KEYS.items())
    soup.execute(f"CREATE STREAM s (pos BIGINT, g BIGINT, x BIGINT, s TEXT, {columns})")
    soup.push("s", table)
    duck.register("arrived", table)
    duck.execute("CREATE TABLE s AS SELECT * FROM arrived")
    for _ in range(max(6, scaled(30))):
        partition = random.choice(["", "PARTITION BY g "])
        way = random.choice(["", " DESC"]) + random.choice([" NULLS LAST", " NULLS FIRST"])
        call = random.choice(CALLS[: 4 if key == "d" else 6]).format(key=key)
        over = f"{call} OVER ({partition}ORDER BY {key}{way} RANGE {frame(random, KEYS[key][3])})"
        shown = f"CAST({over} AS BIGINT)" if call == "sum(x)" else over
        text = f"SELECT pos, {shown} AS c FROM s ORDER BY pos"
        answer = again(soup.ask, text).to_table()
        local = [column.cast(TIMES) if pa.types.is_timestamp(column.type) else column for column in answer.columns]
        mine = list(zip(*(column.to_pylist() for column in local), strict=True))
        assert normal_rows(mine) == normal_rows(duck.execute(text).fetchall()), text


def test_a_distance_beyond_all_keys_is_no_overflow() -> None:
    """DuckDB refuses these sums."""
    soup = LocalPSoup()
    soup.execute("CREATE STREAM s (v BIGINT)")
    soup.push("s", pa.table({"v": [-(2**63) + 3, 0, 2**63 - 2]}))
    for way, before in (("", [1, 2, 2]), (" DESC", [2, 2, 1])):
        text = f"SELECT count(*) OVER (ORDER BY v{way} RANGE {2**63 - 1} PRECEDING) AS n FROM s"
        assert again(soup.ask, text).to_table()["n"].to_pylist() == before
    far = f"SELECT count(*) OVER (ORDER BY CAST(v % 100 AS DECIMAL(9, 2)) RANGE {10**17} PRECEDING) AS n FROM s"
    assert again(soup.ask, far).to_table()["n"].to_pylist() == [1, 2, 3]


REFUSED = {
    "ORDER BY v, x RANGE 5 PRECEDING": "RANGE with a distance needs one key of ORDER BY, not 2",
    "PARTITION BY g RANGE 5 PRECEDING": "RANGE with a distance needs one key of ORDER BY, not 0",
    "ORDER BY s RANGE 5 PRECEDING": "RANGE with a distance needs a key of numbers or times, not TEXT",
    "ORDER BY v RANGE 2.5 PRECEDING": "the distance of a key of type BIGINT is a constant number, at least 0",
    "ORDER BY v RANGE x PRECEDING": "the distance of a key of type BIGINT is a constant number, at least 0",
    "ORDER BY v RANGE -1 PRECEDING": "the distance of a key of type BIGINT is a constant number, at least 0",
    "ORDER BY p RANGE 0.125 PRECEDING": "at most 2 digits after the point",
    "ORDER BY t RANGE 5 PRECEDING": "the distance of a key of type TIMESTAMP is an INTERVAL",
    "ORDER BY v RANGE INTERVAL 1 DAY PRECEDING": "the distance of a key of type BIGINT is a constant number",
    "ORDER BY t RANGE INTERVAL 1 MONTH PRECEDING": "a distance of months in RANGE is not supported",
    "ORDER BY t RANGE INTERVAL '-1' DAY PRECEDING": "the distance of RANGE is at least 0",
    "ORDER BY v GROUPS 5 PRECEDING": "GROUPS in a frame is not supported",
}


@pytest.mark.parametrize(("window", "message"), REFUSED.items())
def test_a_refusal_names_the_distance(window: str, message: str) -> None:
    soup = LocalPSoup()
    columns = ", ".join(f"{name} {kind}" for name, (kind, *_) in KEYS.items())
    soup.execute(f"CREATE STREAM s (pos BIGINT, g BIGINT, x BIGINT, s TEXT, {columns})")
    with pytest.raises(SqlError) as refused:
        soup.ask(f"SELECT sum(x) OVER ({window}) FROM s")
    assert message in str(refused.value)


def test_explain_shows_the_distance() -> None:
    soup = LocalPSoup()
    soup.execute("CREATE STREAM s (t TIMESTAMP, y DATE, p DECIMAL(9, 2))")
    for key, ends, shown in (
        ("t", "INTERVAL 90 MINUTES PRECEDING", "RANGE BETWEEN INTERVAL 90 MINUTES PRECEDING AND CURRENT ROW"),
        ("y", "INTERVAL 2 DAYS PRECEDING", "RANGE BETWEEN INTERVAL 2 DAYS PRECEDING AND CURRENT ROW"),
        ("p", "BETWEEN CURRENT ROW AND 2.5 FOLLOWING", "RANGE BETWEEN CURRENT ROW AND 2.50 FOLLOWING"),
    ):
        query = soup.register(f"SELECT count(*) OVER (ORDER BY {key} RANGE {ends}) AS n FROM s")
        assert f"Over count(*) OVER (ORDER BY {key} {shown})" in "\n".join(soup.explain(query).lines())
