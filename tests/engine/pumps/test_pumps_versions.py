"""Derived joins with tables in event time: a first version may come below the watermark, and meet earlier tuples."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.pumps import pump
from psoup.work.clock import VirtualClock
from psoup_testing.oracles.questions import again
from psoup_testing.suite.sweeps import swept

SECOND = 1_000_000
CONFIG = EngineConfig(chunk_rows=64, piece_rows=16)
SELECT = "SELECT e.k, e.n, c.v, c.n AS version FROM e JOIN c AS OF e ON c.k = e.k"


def timed(name: str, seconds: list[int]) -> tuple[str, pa.Array]:
    """The column of TIMESTAMP BY."""
    return name, pa.array([at * SECOND for at in seconds], pa.timestamp("us"))


def tuples(keys: list[int], first: int, seconds: list[int]) -> pa.Table:
    """Tuples of e. `first`: the number of the first."""
    return pa.table({"k": keys, "n": range(first, first + len(keys)), **dict([timed("at", seconds)])})


def versions(keys: list[int], first: int, seconds: list[int]) -> pa.Table:
    """Versions of rows of c. `first`: the number of the first."""
    numbers = range(first, first + len(keys))
    return pa.table({"k": keys, "v": [f"v{n}" for n in numbers], "n": numbers, **dict([timed("since", seconds)])})


def started(clause: str = "") -> LocalPSoup:
    soup = LocalPSoup(CONFIG, VirtualClock(10_000 * SECOND))
    soup.execute("CREATE STREAM e (k BIGINT, n BIGINT, at TIMESTAMP) TIMESTAMP BY at LATENESS 3 SECONDS")
    soup.execute(
        "CREATE TABLE c (k BIGINT PRIMARY KEY, v TEXT, n BIGINT, since TIMESTAMP) TIMESTAMP BY since"
        f" LATENESS 2 SECONDS HISTORY 400 DAYS {clause}"
    )
    soup.execute(f"CREATE STREAM x AS ({SELECT})")
    return soup


def close(soup: LocalPSoup, second: int) -> None:
    for name in ("e", "c"):
        soup.heartbeat(name, second * SECOND)


def derived(soup: LocalPSoup) -> list[tuple[int, int, int]]:
    """The numbers of the tuple and of the version, and the instant in seconds, of each row of x."""
    rows = again(soup.ask, "SELECT n, version, epoch_us(_time) AS at FROM x").to_table().to_pylist()
    return [(row["n"], row["version"], row["at"] // SECOND) for row in rows]


def test_a_version_that_is_there_before_the_tuple_meets_it() -> None:
    """The watermark at which the version was taken is above the time of the tuple."""
    soup = started()
    soup.push("c", versions([1], 0, [100]))
    soup.heartbeat("c", 1_000 * SECOND)
    soup.push("c", versions([2], 1, [400]))
    soup.push("e", tuples([1, 2], 0, [900, 901]))
    soup.heartbeat("e", 950 * SECOND)
    assert derived(soup) == [(0, 0, 900)], "the instant at which the table has taken the version is open"
    close(soup, 1_001)
    assert derived(soup) == [(0, 0, 900), (1, 1, 1_000)]


def test_a_tuple_enters_when_the_late_first_version_of_its_key_comes() -> None:
    """Its instant is the watermark at which the version was taken: the earlier instants are derived already."""
    soup = started()
    soup.push("c", versions([1], 0, [100]))
    soup.push("e", tuples([1, 2, 2], 0, [500, 300, 500]))
    close(soup, 1_000)
    assert derived(soup) == [(0, 0, 500)]
    soup.push("c", versions([2, 2], 1, [400, 600]))
    close(soup, 1_001)
    assert derived(soup) == [(0, 0, 500), (2, 1, 1_000)]


class History:
    """Random pushes into e and c, and heartbeats. Keys come anew all the time."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def run(self, clause: str, step: int) -> LocalPSoup:
        """`step`: the most tuples of a step of the pump."""
        random, soup = np.random.default_rng(self.seed), started(clause)
        number = 0
        with patch.object(pump, "MOST_TUPLES", step):
            for at in range(30):
                count = int(random.integers(1, 9))
                keys = random.integers(0, 4 + at, count).tolist()
                seconds = (20 + 3 * at + random.integers(-12, 3, count)).tolist()
                which, rows = ("e", tuples) if random.random() < 0.5 else ("c", versions)
                soup.push(which, rows(keys, number, seconds), refused="count")
                number += count
                if random.random() < 0.3:
                    close(soup, 20 + 3 * at)
                if random.random() < 0.1:
                    soup.maintain()
            close(soup, 1_000)
            close(soup, 1_001)
        return soup


@pytest.mark.parametrize("clause", ["", "FIRST VERSION FROM START"])
@pytest.mark.parametrize("seed", swept(range(3), fast=1))
def test_all_rows_of_the_join_are_derived_once(seed: int, clause: str) -> None:
    soup, in_small_steps = (History(seed).run(clause, step) for step in (pump.MOST_TUPLES, 8))
    rows = derived(soup)
    answer = again(soup.ask, f"{SELECT} BEGIN (START)").to_table().to_pylist()
    assert sorted((n, version) for n, version, _ in rows) == sorted((row["n"], row["version"]) for row in answer)
    assert len(rows) > 10
    assert [at for *_, at in rows] == sorted(at for *_, at in rows)
    assert derived(in_small_steps) == rows
