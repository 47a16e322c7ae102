"""composed statements, written by mistake or with bad intent, sent to a real service in a process.

Each is answered, or refused with a sentence that names the fault. Another client's calls take at most three times as
long as without them, and the service goes on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from statistics import median

import numpy as np
import pyarrow as pa
import pytest

from psoup_client import Client, InvalidRequest, PSoupError, ResourceExhausted
from psoup_testing.services.zygote import Zygote

ROWS = 1_000_000
NINE = "SELECT count(*) AS c FROM few a1 WHERE " + " AND ".join(
    f"EXISTS (SELECT 1 FROM few a{place} WHERE a{place}.k = a1.k)" for place in range(2, 10)
)
SIDES = " UNION ALL ".join(["SELECT a.k FROM few a, few b, few c WHERE a.k = b.k AND b.k = c.k"] * 8)
JOINED = "SELECT count(*) AS c FROM " + ", ".join(f"(SELECT x.k FROM few x) a{place}" for place in range(9))


def nested(levels: int) -> str:
    """Subselects in FROM, so many levels deep."""
    text = "SELECT k FROM few"
    for _ in range(levels):
        text = f"SELECT k FROM ({text}) t"
    return text


REFUSED = {
    JOINED: "names 9 sources, more than 8",
    SIDES: "the statement names more than 16 sources",
    " UNION ALL ".join(["SELECT k FROM few"] * 9): "a set operation has at most 8 SELECTs, not 9",
    "SELECT k FROM few f WHERE EXISTS (SELECT 1 FROM few g WHERE g.k = nowhere.k)": "'nowhere' is not in FROM",
    nested(21): "subselects nest deeper than 20 levels",
    nested(200): "nests deeper than 50 levels",
    "WITH t AS (SELECT k FROM t) SELECT k FROM t": "an item of WITH that reads itself",
    "WITH RECURSIVE t AS (SELECT k FROM few UNION SELECT k FROM t) SELECT k FROM t": "WITH RECURSIVE is not supported",
    "SELECT k FROM few UNION SELECT k, w FROM few": "UNION of 1 columns? with 2",
    "SELECT k > 1 AS b FROM few UNION SELECT _time AS b FROM few": r"BOOLEAN.*TIMESTAMP",
    "SELECT k FROM few WHERE k IN (SELECT k, n FROM few)": "the subselect of IN has one column",
    "SELECT k FROM few WHERE k > (SELECT k FROM few)": "a subselect of several rows or columns as a value",
}
"""Statements that are refused, and a pattern of the sentence."""
HEAVY = (
    NINE,
    nested(20),
    "SELECT k, row_number() OVER (PARTITION BY k ORDER BY n) AS r FROM many",
    "SELECT k FROM many EXCEPT SELECT n FROM many",
    "SELECT a.k FROM many a LEFT JOIN many b ON a.n = b.n",
    "SELECT k FROM many WHERE k NOT IN (SELECT n FROM many)",
    "SELECT k FROM many a WHERE NOT EXISTS (SELECT 1 FROM many b WHERE b.k < a.n)",
    "SELECT a.n FROM wide a LEFT JOIN wide b ON a.w = b.w",
    "SELECT w FROM wide EXCEPT ALL SELECT w FROM wide WHERE n > 3",
    "SELECT n FROM wide WHERE w NOT IN (SELECT w FROM wide WHERE n > 9)",
    "SELECT n, count(*) OVER (PARTITION BY w) AS c FROM wide",
)
"""Statements that cost much: a million partitions, a million keys, keys of a megabyte."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Zygote() as zygote:
        zygote.start(str(tmp_path_factory.mktemp("bad")))
        address = zygote.ready()
        with Client(address, timeout=120) as client:
            rng = np.random.default_rng(1)
            for stream in ("few", "many", "wide"):
                client.create_stream(f"CREATE STREAM {stream} (k BIGINT, n BIGINT, w TEXT)")
            client.push("few", {"k": list(range(50)), "n": list(range(50)), "w": [str(n) for n in range(50)]})
            numbers = pa.table({"k": np.arange(ROWS), "n": rng.permutation(ROWS)})
            for start in range(0, ROWS, 100_000):
                client.push("many", numbers.slice(start, 100_000))
            for number in range(20):  # they differ at their end
                client.push("wide", {"k": [number], "n": [number], "w": ["x" * 1_000_000 + str(number % 7)]})
        yield address
        assert zygote.stop() == 0


@pytest.mark.long
@pytest.mark.parametrize("statement", REFUSED)
def test_a_wrong_statement_is_refused_by_name(statement: str, address: str) -> None:
    with Client(address) as client:
        for call in (client.ask, client.register):
            with pytest.raises(InvalidRequest, match=REFUSED[statement]):
                call(statement)  # type: ignore[operator]
        assert client.queries() == []


def calls(address: str, stop: threading.Event) -> list[float]:
    """The seconds of each call of a small query, until `stop`, at least 50."""
    taken = list[float]()
    with Client(address, timeout=60) as client:
        while not stop.is_set() or len(taken) < 50:
            start = time.perf_counter()
            assert len(client.ask("SELECT k FROM few WHERE k > 45").rows()) == 4
            taken.append(time.perf_counter() - start)
    return taken


@pytest.mark.long
def test_costly_statements_leave_calls_of_another_client_fast(address: str) -> None:
    ended, outcomes = threading.Event(), dict[str, str]()

    def attack() -> None:
        try:
            with Client(address, timeout=120) as client:
                for statement in HEAVY:
                    try:
                        outcomes[statement] = f"{client.ask(statement).to_arrow().num_rows} rows"
                    except (ResourceExhausted, InvalidRequest) as problem:
                        outcomes[statement] = str(problem)
                    except PSoupError as problem:
                        outcomes[statement] = f"failed: {type(problem).__name__}: {problem}"
        finally:
            ended.set()

    quiet = threading.Event()
    quiet.set()
    alone = median(calls(address, quiet))
    attacker = threading.Thread(target=attack)
    attacker.start()
    beside = median(calls(address, ended))
    attacker.join()
    assert len(outcomes) == len(HEAVY)
    assert not [outcome for outcome in outcomes.values() if outcome.startswith("failed")], outcomes
    assert beside < 3 * alone + 0.01, (beside, alone, outcomes)
