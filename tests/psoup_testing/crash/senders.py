"""Producers in threads that push batches the checker knows, for tests that end the service under them.

sender = Sender(address, k, stop, progress)     pushes batch 0, 1, 2 … of producer k until `stop` is set
sender.acknowledged                             how many were acknowledged by now
sender.finish()                                 waits until all are
"""

from __future__ import annotations

import threading

import pyarrow as pa

from psoup_client import Client
from psoup_client.ingest.producer import Producer
from psoup_testing.crash.acknowledgements import batch_rows, problems

EPOCH = 1
CREATE = "CREATE STREAM s (k BIGINT, n BIGINT, part BIGINT)"
QUERY = "SELECT k, n, part FROM s BEGIN (START)"


def batch(producer: int, number: int) -> pa.Table:
    """A batch, in columns."""
    rows = batch_rows(producer, EPOCH, number)
    return pa.table({"k": [k for k, _, _, _ in rows], "n": [n for _, _, n, _ in rows], "part": [p for *_, p in rows]})


def check(rows: pa.Table, acknowledged: list[int]) -> list[int]:
    """Count the batches of each producer; fails if the checker finds a problem."""
    received = [(row["k"], EPOCH, row["n"], row["part"]) for row in rows.to_pylist()]
    assert problems({(k, EPOCH): count for k, count in enumerate(acknowledged)}, received) == []
    return [
        1 + max((n for k, _, n, _ in received if k == producer), default=-1) for producer in range(len(acknowledged))
    ]


class Sender:
    """A producer in a thread. It goes on over every restart until it is stopped."""

    def __init__(self, address: str, producer: int, stop: threading.Event, progress: threading.Condition) -> None:
        self.number = producer
        self.problem: BaseException | None = None
        self._stop = stop
        self._progress = progress
        self._client = Client(address, timeout=60)
        self._producer: Producer = self._client.producer(
            "s", name=f"p{producer}", epoch=EPOCH, window_batches=8, retry_seconds=90, on_reply=lambda _: self._told()
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def acknowledged(self) -> int:
        return self._producer.acknowledged

    @property
    def sequence(self) -> int:
        """The last event of its batches."""
        return self._client.last_sequence

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
