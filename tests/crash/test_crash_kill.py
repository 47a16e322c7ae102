"""T1: kill -9 at random moments, four producers go on; the checker knows only what was acknowledged.

    before each kill     how many batches each producer was told to be acknowledged
    after each restart   the query registered in the beginning finds what `psoup_testing.crash.acknowledgements` says it
    must;
                         queries that were removed at once are gone, and the call that removed them may come again

Chunks are small, so that many are stored and kills hit their writing (T6).
T7 on the way: each kill loses replies, and the producers send again what may have been taken.

T30: SIGTERM under the same load ends the service in time, and what was acknowledged is there.
"""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest

from psoup_client import Client, NotFound
from psoup_testing.crash.senders import CREATE, EPOCH, QUERY, Sender, batch, check
from psoup_testing.oracles.questions import again
from psoup_testing.services.zygote import Zygote
from psoup_testing.suite.budget import SCALE, SEED, replayable

PRODUCERS = 4
CYCLES = max(12, round(12 * SCALE))
BATCHES, CHUNKS = 20 * CYCLES, 3
"""More than so many are acknowledged, and stored, or the kills hit nothing."""

TERMS = max(3, round(2 * SCALE))
TERM_SECONDS = 10.0


def wait_for_some(senders: list[Sender], progress: threading.Condition, chance: random.Random) -> list[int]:
    """Wait until a random moment, of the clock or of the work; what is acknowledged then."""
    with progress:
        target = sum(s.acknowledged for s in senders) + chance.randrange(400)
        progress.wait_for(lambda: sum(s.acknowledged for s in senders) > target, chance.uniform(0, 0.6))
    return [sender.acknowledged for sender in senders]


def chunks(data: str) -> int:
    """How many are stored."""
    return len(list(Path(data, "chunks").glob("*")))


def check_positions(client: Client, acknowledged: list[int]) -> None:
    """Each producer is where it was told at least, with all rows until there; it may have gone on meanwhile."""
    for producer, count in enumerate(acknowledged):
        if count:
            at = client.position("s", f"p{producer}")
            assert at.number >= count
            assert (at.epoch, at.rows) == (EPOCH, sum(batch(producer, number).num_rows for number in range(at.number)))


def take_the_place(client: Client, queries: list[str], cycle: int) -> None:
    """Replace a query under its key; the IDs of those that followed one another under it lead to the last of them."""
    queries.append(client.register(QUERY, key="changing", labels={"cycle": f"{cycle}"}, replace=True).id)
    for gone in queries[:-1]:
        with pytest.raises(NotFound) as refused:
            client.query(gone)
        assert refused.value.replaced_by == queries[-1]


def come_and_go(client: Client, named: dict[str, str], removed: dict[str, int], key: str, remove: bool) -> None:
    """Register a query, and remove all of them at once or none; the last removal comes again, and removes nothing."""
    for request in [*removed][-1:]:
        assert client.unregister_many(key_prefix="k", request_id=request) == removed[request]
    named[key] = client.register(QUERY, key=key, labels={"of": "killed"}).id
    if remove:
        removed[key] = len(named)
        assert client.unregister_many(key_prefix="k", request_id=key) == len(named)
        named.clear()


def listed(client: Client) -> dict[str, str]:
    """Return the IDs of the queries that come and go, by key."""
    return {query.key: query.id for query in client.queries(labels={"of": "killed"})}


@pytest.mark.long
def test_kill_9_at_random_moments_loses_and_doubles_nothing(tmp_path: Path) -> None:
    chance, data = random.Random(SEED), str(tmp_path / "data")
    stop, progress = threading.Event(), threading.Condition()
    with replayable(SEED), Zygote(PSOUP_TEST_CHUNK_ROWS="64") as zygote:
        zygote.start(data)
        address = zygote.ready()
        port = int(address.rpartition(":")[2])
        with Client(address, timeout=60) as client:
            client.create_stream(CREATE)
            query = client.register(QUERY).id
            changing = [client.register(QUERY, key="changing", expires_after="2 days").id]
        senders, named = [Sender(address, k, stop, progress) for k in range(PRODUCERS)], dict[str, str]()
        removed = dict[str, int]()
        try:
            for cycle in range(CYCLES):
                acknowledged = wait_for_some(senders, progress, chance)
                assert zygote.kill() == 9
                zygote.start(data, port)
                if chance.random() < 0.2:  # in the middle of the start, too
                    with progress:
                        progress.wait_for(lambda: False, chance.uniform(0, 0.3))
                    continue
                assert zygote.ready() == address
                with Client(address, timeout=60) as client:
                    check(client.query(query).invoke().to_arrow(), acknowledged)
                    check_positions(client, acknowledged)
                    assert listed(client) == named
                    take_the_place(client, changing, cycle)
                    come_and_go(client, named, removed, f"k{cycle}", chance.random() < 0.3)
            with progress:  # on a machine that has much else to do, too
                progress.wait_for(lambda: sum(s.acknowledged for s in senders) > BATCHES and chunks(data) > CHUNKS, 90)
        finally:
            stop.set()
        totals = [sender.finish() for sender in senders]
        with Client(address, timeout=60) as client:
            last = max(sender.sequence for sender in senders)
            rows = again(client.query(query).invoke, wait_for=last).to_arrow()
            assert check(rows, totals) == totals
        assert sum(totals) > BATCHES, "the producers hardly got anywhere"
        assert zygote.stop() == 0
    assert chunks(data) > CHUNKS, "hardly a chunk was stored"


@pytest.mark.long
def test_sigterm_under_load_ends_in_time_and_loses_nothing(tmp_path: Path) -> None:
    chance, data = random.Random(SEED), str(tmp_path / "data")
    stop, progress = threading.Event(), threading.Condition()
    with replayable(SEED), Zygote(PSOUP_TEST_CHUNK_ROWS="64") as zygote:
        zygote.start(data)
        address = zygote.ready()
        with Client(address, timeout=60) as client:
            client.create_stream(CREATE)
            query = client.register(QUERY).id
        senders = [Sender(address, k, stop, progress) for k in range(PRODUCERS)]
        try:
            for _ in range(TERMS):
                wait_for_some(senders, progress, chance)
                started = time.monotonic()
                assert zygote.stop() == 0
                assert time.monotonic() - started <= TERM_SECONDS
                acknowledged = [sender.acknowledged for sender in senders]
                zygote.start(data, int(address.rpartition(":")[2]))
                assert zygote.ready() == address
                with Client(address, timeout=60) as client:
                    check(client.query(query).invoke().to_arrow(), acknowledged)
        finally:
            stop.set()
        for sender in senders:
            sender.finish()
        assert zygote.stop() == 0
