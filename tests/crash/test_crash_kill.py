"""T1: kill -9 at random moments, four producers go on; the checker knows only what was acknowledged.

    producer k pushes batch 0, 1, 2 …; batch n has a known number of rows (k, n, 0), (k, n, 1) …
    before each kill     what k was told to be acknowledged
    after each restart   the query registered in the beginning finds, for each k, batches 0 … m, whole, once, in order,
                         and m is not below what was acknowledged

Chunks are small, so that many are stored and kills hit their writing (T6).
T7 on the way: each kill loses replies, and the producers send again what may have been taken.
"""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pyarrow as pa

from psoup_client import Client
from psoup_client.producer import Producer
from psoup_testing.budget import SCALE, SEED
from psoup_testing.zygote import Zygote

PRODUCERS = 4
CYCLES = max(12, round(12 * SCALE))


def rows_of(number: int) -> int:
    return 1 + number * 7919 % 6


def batch(producer: int, number: int) -> pa.Table:
    rows = rows_of(number)
    return pa.table({"k": [producer] * rows, "n": [number] * rows, "part": list(range(rows))})


class Sender:
    """One producer in a thread; goes on over every restart, until told to stop."""

    def __init__(self, address: str, producer: int, stop: threading.Event, progress: threading.Condition) -> None:
        self.number = producer
        self.problem: BaseException | None = None
        self._stop = stop
        self._progress = progress
        self._client = Client(address, timeout=20)
        self._producer: Producer = self._client.producer(
            "s", name=f"p{producer}", epoch=1, window_batches=8, retry_seconds=90, on_reply=lambda _: self._told()
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def acknowledged(self) -> int:
        return self._producer.acknowledged

    def finish(self) -> int:
        """Every batch is acknowledged; how many there were."""
        self._thread.join()
        if self.problem is not None:
            raise self.problem
        self._client.close()
        return self.acknowledged

    def _told(self) -> None:
        with self._progress:
            self._progress.notify()

    def _run(self) -> None:
        try:
            number = 0
            with self._producer:
                while not self._stop.is_set():
                    number = self._producer.push(batch(self.number, number))
        except BaseException as problem:
            self.problem = problem


def check(rows: pa.Table, acknowledged: list[int]) -> list[int]:
    """Per producer the batches found: 0 … m - 1, each whole and once, none missing that was acknowledged."""
    found = []
    for producer, least in enumerate(acknowledged):
        mine = [(row["n"], row["part"]) for row in rows.to_pylist() if row["k"] == producer]
        last = max((number for number, _ in mine), default=-1)
        whole = [(number, part) for number in range(last + 1) for part in range(rows_of(number))]
        assert mine == whole, f"producer {producer}: rows are lost, double or out of order"
        assert last + 1 >= least, f"producer {producer}: {least} batches were acknowledged, {last + 1} are there"
        found.append(last + 1)
    return found


def test_kill_9_at_random_moments_loses_and_doubles_nothing(tmp_path: Path) -> None:
    chance, data = random.Random(SEED), str(tmp_path / "data")
    stop, progress = threading.Event(), threading.Condition()
    with Zygote(PSOUP_TEST_CHUNK_ROWS="64") as zygote:
        zygote.start(data)
        address = zygote.ready()
        port = int(address.rpartition(":")[2])
        with Client(address, timeout=20) as client:
            client.create_stream("CREATE STREAM s (k BIGINT, n BIGINT, part BIGINT)")
            query = client.register("SELECT k, n, part FROM s BEGIN (START)").id
        senders = [Sender(address, k, stop, progress) for k in range(PRODUCERS)]
        try:
            for _ in range(CYCLES):
                with progress:  # a random moment: of the clock, or of the work
                    target = sum(s.acknowledged for s in senders) + chance.randrange(400)
                    progress.wait_for(lambda t=target: sum(s.acknowledged for s in senders) > t, chance.uniform(0, 0.6))
                acknowledged = [sender.acknowledged for sender in senders]
                assert zygote.kill() == 9
                zygote.start(data, port)
                if chance.random() < 0.2:  # in the middle of the start, too
                    with progress:
                        progress.wait_for(lambda: False, chance.uniform(0, 0.3))
                    continue
                assert zygote.ready() == address
                with Client(address, timeout=20) as client:
                    check(client.query(query).invoke().to_arrow(), acknowledged)
        finally:
            stop.set()
        totals = [sender.finish() for sender in senders]
        with Client(address, timeout=20) as client:
            rows = client.query(query).invoke(wait_for=client.last_sequence).to_arrow()
            assert check(rows, totals) == totals
        assert sum(totals) > 20 * CYCLES, "the producers hardly got anywhere"
        assert zygote.stop() == 0
    assert len(list((tmp_path / "data" / "chunks").iterdir())) > 3, "hardly a chunk was stored"
