"""kill -9 of a feed, of the service and of both, at random moments: every row of the source is in once, in its order.

    feed     position ── 0 … 17 ── 18 … killed          the next one asks for the position, and goes on there
    service  ───────────────── killed ── started ──     the position is as old as the rows

The feed is a process of its own (`psoup_testing.crash.feed_program`).
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from psoup_client import Client
from psoup_testing.crash.feed_program import CREATE, NAME, STREAM
from psoup_testing.oracles.questions import again
from psoup_testing.services.zygote import Zygote
from psoup_testing.suite.budget import SCALE, SEED, replayable

ROWS = 12_000
KILLS = max(6, round(12 * SCALE))
TESTS = Path(__file__).resolve().parents[1]


def start_feed(address: str) -> subprocess.Popen[str]:
    environ = {**os.environ, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-m", "psoup_testing.crash.feed_program", address, str(ROWS)]
    return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True)


def wait_for_replies(feed: subprocess.Popen[str], count: int) -> None:
    """Wait until the feed has told of some replies, or has ended."""
    assert feed.stdout is not None
    for _ in range(count):
        if not feed.stdout.readline():
            return


@pytest.mark.long
def test_a_feed_goes_on_behind_its_position_after_every_kill(tmp_path: Path) -> None:
    chance, data = random.Random(SEED), str(tmp_path / "data")
    with replayable(SEED), Zygote(PSOUP_TEST_CHUNK_ROWS="64") as zygote:
        zygote.start(data)
        address = zygote.ready()
        port = int(address.rpartition(":")[2])
        with Client(address, timeout=60) as client:
            client.create_stream(CREATE)
            query = client.register(f"SELECT n FROM {STREAM} BEGIN (START)").id
        feed = start_feed(address)
        for _ in range(KILLS):
            wait_for_replies(feed, chance.randrange(1, 60))
            if chance.random() < 0.4:
                assert zygote.kill() == 9
                if chance.random() < 0.5:
                    feed.kill()
                zygote.start(data, port)
                assert zygote.ready() == address
            else:
                feed.kill()
            if feed.poll() is not None or chance.random() < 0.5:
                feed.kill()
                feed.communicate()
                feed = start_feed(address)
        feed.communicate()
        last = start_feed(address)
        last.communicate()
        assert last.returncode == 0
        with Client(address, timeout=60) as client:
            assert client.position(STREAM, NAME).source == b"%d" % ROWS
            rows = again(client.query(query).invoke).to_arrow()["n"].to_pylist()
        assert rows == list(range(ROWS))
        assert zygote.stop() == 0
