"""kill -9 of a feed, of PostgreSQL and of the service: the table follows, and each change comes once.

    PostgreSQL   UPDATE t SET v = v + 1 …      killed, started
    psoup cdc    ── transactions ──            killed, started
    PSoup        versions                      killed, started

A row with v = 7 has had eight versions. So the number of versions shows a change that came twice or never.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("psycopg2", reason="psycopg2 is not installed (the extra psoup[postgres])")

import psycopg2

from psoup_client import Client
from psoup_testing.oracles.questions import again
from psoup_testing.services import postgres
from psoup_testing.services.postgres import Postgres
from psoup_testing.services.zygote import Zygote
from psoup_testing.suite.budget import SCALE, SEED, replayable

pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(postgres.missing()), reason=postgres.missing() or "-")]
KILLS = max(6, round(12 * SCALE))
ROWS = 30


def start_feed(address: str, server: Postgres, *options: str) -> subprocess.Popen[str]:
    code = "import sys; from psoup_cli.main import main; main(sys.argv[1:])"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PSOUP_ADDRESS": address}
    command = [sys.executable, "-c", code, "cdc", "t", "--from", server.address, *options]
    return subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True)


def write(server: Postgres, chance: random.Random, transactions: int) -> None:
    """Carry out transactions. A killed server may have taken the last one or not."""
    for _ in range(transactions):
        first = chance.randrange(ROWS)
        with suppress(psycopg2.Error):
            server.run(f"UPDATE t SET v = v + 1 WHERE k BETWEEN {first} AND {first + chance.randrange(8)}")


@pytest.mark.seeded("a change applied twice after a reconnect")
def test_each_change_comes_once_whatever_is_killed(tmp_path: Path) -> None:
    chance, data = random.Random(SEED), str(tmp_path / "data")
    with replayable(SEED), Postgres(fsync="on") as server, Zygote(PSOUP_TEST_CHUNK_ROWS="64") as zygote:
        server.run("CREATE TABLE t (k int PRIMARY KEY, v int NOT NULL, doc text)")
        server.run("ALTER TABLE t ALTER doc SET STORAGE EXTERNAL")
        zygote.start(data)
        address = zygote.ready()
        port = int(address.rpartition(":")[2])
        created = start_feed(address, server, "--once")
        assert created.wait() == 0, created.communicate()[1]
        feed = start_feed(address, server)
        server.run(f"INSERT INTO t SELECT n, 0, repeat('d', 3000) FROM generate_series(0, {ROWS - 1}) n")
        for _ in range(KILLS):
            write(server, chance, chance.randrange(1, 30))
            victim = chance.choice(["feed", "server", "service", "both"])
            if victim in ("server", "both"):
                server.kill()
                server.start()
            if victim == "service":
                assert zygote.kill() == 9
                zygote.start(data, port)
                assert zygote.ready() == address
            if victim in ("feed", "both") or feed.poll() is not None:
                feed.kill()
                feed.communicate()
                feed = start_feed(address, server)
        write(server, chance, 10)
        feed.kill()
        feed.communicate()
        last = start_feed(address, server, "--once")
        _, said = last.communicate()
        assert last.returncode == 0, said
        expected = sorted(server.run("SELECT k, v, doc FROM t"))
        with Client(address, timeout=60) as client:
            table = again(client.ask, "SELECT k, v, doc FROM t").to_arrow()
            assert sorted(zip(*(column.to_pylist() for column in table.columns), strict=True)) == expected
            assert client.describe("t").next_tuple_id == sum(v + 1 for _, v, _ in expected)
        assert zygote.stop() == 0


def test_a_first_copy_that_is_killed_begins_anew(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    with replayable(SEED), Postgres() as server, Zygote() as zygote:
        server.run("CREATE TABLE t (k int PRIMARY KEY, v text)")
        server.run("INSERT INTO t SELECT n, repeat('v', 100) FROM generate_series(1, 300000) n")
        zygote.start(str(tmp_path / "data"))
        address = zygote.ready()
        for _ in range(3):
            feed = start_feed(address, server, "--once")
            with suppress(subprocess.TimeoutExpired):
                feed.wait(chance.uniform(0.8, 2.0))
            feed.kill()
            feed.communicate()
        last = start_feed(address, server, "--once")
        _, said = last.communicate()
        assert last.returncode == 0, said
        with Client(address, timeout=60) as client:
            assert client.ask("SELECT count(*) AS n FROM t").to_arrow()["n"].to_pylist() == [300_000]
            assert client.describe("t").next_tuple_id == 300_000
        assert server.slots() == ["psoup_t"]
        assert zygote.stop() == 0
