"""kill -9 of a service with derived streams, at any moment: rows and IDs are as in a service that was never killed.

Each source row comes once, so each derived row must. The IDs follow the instants, and those the sources. Some streams
are suspended meanwhile, and resumed.
"""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from psoup_client import Client
from psoup_storage.durable.tools.doctor import examine
from psoup_testing.oracles.questions import again
from psoup_testing.services.threaded_service import serving
from psoup_testing.services.zygote import Zygote
from psoup_testing.suite.budget import SEED, replayable, scaled

pytestmark = pytest.mark.long
SECOND = 1_000_000
TIMED = "(k BIGINT, v BIGINT, at TIMESTAMP) TIMESTAMP BY at"
CREATE = (
    f"CREATE STREAM e {TIMED}",
    f"CREATE STREAM f {TIMED}",
    "CREATE STREAM big AS (SELECT k, v FROM e WHERE v > 3)",
    "CREATE STREAM pairs AS (SELECT e.k, e.v, f.v AS w FROM e [RANGE 9 SECONDS], f [RANGE 9 SECONDS] WHERE e.k = f.k)",
    "CREATE STREAM bigger AS (SELECT k FROM big WHERE v > 6)",
    "CREATE STREAM gone AS DSTREAM (SELECT DISTINCT k, v FROM e [RANGE 3 SECONDS])",
    "CREATE STREAM alone AS (SELECT a.k, a.v FROM e a WHERE NOT EXISTS (SELECT 1 FROM f b WHERE b.k = a.k AND b.v > a.v"
    " AND b.at BETWEEN a.at AND a.at + INTERVAL 1 SECOND))",
    "CREATE STREAM sums AS (SELECT k, CAST(sum(v) AS BIGINT) AS s FROM e [RANGE 2 SECONDS] GROUP BY k)",
    "CREATE STREAM counts AS (SELECT k, count(*) AS n FROM e [RANGE 5 SECONDS] GROUP BY k) EVERY 2 SECONDS",
    "CREATE STREAM least AS RSTREAM (SELECT k FROM counts [RANGE 3 SECONDS] ORDER BY n, k LIMIT 2) EVERY 3 SECONDS",
)
DERIVED = ("big", "pairs", "bigger", "gone", "alone", "sums", "counts", "least")


def batch(number: int) -> pa.Table:
    """The rows of a batch, which depend on its number alone."""
    draw = random.Random(number)
    at = [number * SECOND + row * 1_000 for row in range(20)]
    rows = {"k": [draw.randrange(4) for _ in at], "v": [draw.randrange(10) for _ in at]}
    return pa.table({**rows, "at": pa.array(at, pa.timestamp("us"))})


def push(client: Client, number: int) -> None:
    """Push a batch into both sources, each once however often it is called."""
    for stream in ("e", "f"):
        with client.producer(stream, name="p", epoch=1, number=number) as producer:
            producer.push(batch(number))


def shown(client: Client) -> list[pa.Table]:
    return [again(client.ask, f"SELECT *, _id, _time FROM {name}").to_arrow() for name in DERIVED]


@pytest.mark.parametrize("number", range(scaled(2)))
def test_rows_and_ids_are_as_in_a_service_that_was_never_killed(number: int, tmp_path: Path) -> None:
    draw, batches, kills = random.Random(SEED + number), 30, 6
    with serving() as served, Client(served.address) as client:
        for statement in CREATE:
            client.execute(statement)
        for each in range(batches):
            push(client, each)
        expected = shown(client)
    with replayable(SEED + number), Zygote() as zygote:
        data, at = str(tmp_path / "data"), sorted(draw.sample(range(1, batches), kills))
        zygote.start(data)
        address = zygote.ready()
        with Client(address) as client:
            for statement in CREATE:
                client.execute(statement)
        for first, stop in zip([0, *at], [*at, batches], strict=True):
            with Client(address) as client:
                for each in range(first, stop):
                    if draw.random() < 0.3:
                        change = draw.choice(("SUSPEND", "RESUME", "RESUME"))
                        client.execute(f"ALTER STREAM {draw.choice(DERIVED)} {change}")
                    push(client, each)
                for name in DERIVED if stop == batches else ():
                    client.execute(f"ALTER STREAM {name} RESUME")
                rows = shown(client) if stop == batches else []  # of its own writes: a read that waits for the pumps
            zygote.kill()
            if stop < batches:
                zygote.start(data, port=int(address.rpartition(":")[2]))
                address = zygote.ready()
        assert [table.to_pylist() for table in rows] == [table.to_pylist() for table in expected]
        assert min(table.num_rows for table in expected) > 10
        assert expected[1].num_rows > 100
    assert examine(tmp_path / "data").well
