"""Twice what a service can take, under a limit of a gigabyte (T22): it lives, says what it refuses, keeps what it
acknowledged, and does nearly as much as it could.

    capacity   a few batches under way on each connection: so many tuples a second are acknowledged
    overload   twice as many are offered by the clock, whatever becomes of those before

Both take turns, as the machine may have other work; the best turn counts. `make soak` lets each take ten seconds.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest

from benchmarks.tool.processes import resident
from psoup_client import Client
from psoup_proto.v1 import ingest_pb2, ingest_pb2_grpc
from psoup_testing.services.wire import ipc
from psoup_testing.services.zygote import Zygote
from psoup_testing.suite.budget import ALL_PLACES, SCALE

WHOLE = SCALE >= ALL_PLACES
SECONDS, GOODPUT = (10.0, 0.8) if WHOLE else (1.5, 0.5)
"""Seconds of a turn, and the share of the capacity that is acknowledged; `make test-long` shares its processors."""

TURNS, CLIENTS, WINDOW, ROWS, QUERIES = 3, 4, 8, 2_000, 200
MEMORY_MIB, LIMIT_MIB = 128, 1_024
OPTIONS = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0))
ENDS = {"OK", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "UNAVAILABLE", "CANCELLED"}
"""What may be said. The last two are gRPC's own: it refuses streams (REFUSED_STREAM) while a thousand are not begun."""


class Load:
    """Clients that push the same batch, each over a connection of its own. `said`: how calls ended."""

    def __init__(self, address: str) -> None:
        table = pa.table({"x": pa.array(range(ROWS)), "y": pa.array([n % 97 for n in range(ROWS)])})
        self._request = ingest_pb2.PushRequest(stream="s", arrow_ipc=ipc(table))
        self._channels = [grpc.insecure_channel(address, OPTIONS) for _ in range(CLIENTS)]
        self._pushes = [ingest_pb2_grpc.IngestServiceStub(channel).Push for channel in self._channels]
        self.said: Counter[str] = Counter()
        self._lock = threading.Lock()

    def turn(self, seconds: float, per_second: float | None) -> float:
        """The tuples that are acknowledged in a second; `per_second`: offered by the clock, None: a few at a time."""
        before, began = self.said["OK"], time.monotonic()
        work = [threading.Thread(target=self._client, args=(k, began + seconds, per_second)) for k in range(CLIENTS)]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
        return (self.said["OK"] - before) * ROWS / (time.monotonic() - began)

    def close(self) -> None:
        for channel in self._channels:
            channel.close()

    def _client(self, number: int, ends: float, per_second: float | None) -> None:
        push, under_way = self._pushes[number], deque[Any]()
        due, clock = time.monotonic(), threading.Event()
        while time.monotonic() < ends:
            under_way.append(push.future(self._request, timeout=10))
            if per_second is None:
                if len(under_way) == WINDOW:
                    self._note(under_way.popleft())
                continue
            due += CLIENTS * ROWS / per_second
            clock.wait(max(0.0, due - time.monotonic()))
        for call in under_way:
            self._note(call)

    def _note(self, call: Any) -> None:
        code = call.code().name
        with self._lock:
            self.said[code] += 1


@pytest.mark.long
def test_twice_the_capacity_is_refused_in_part_and_costs_little_of_it(tmp_path: Path) -> None:
    environ = {"PSOUP_TEST_MEMORY_MIB": str(LIMIT_MIB), "PSOUP_MEMORY_MIB": str(MEMORY_MIB), "PSOUP_QUEUE_MIB": "8"}
    with Zygote(**environ) as zygote:
        zygote.start(str(tmp_path))
        address = zygote.ready()
        with Client(address) as client:
            client.create_stream("CREATE STREAM s (x BIGINT, y BIGINT) RETENTION 100000 ROWS")
            bounds = pa.table({"low": [n % ROWS for n in range(QUERIES)], "rest": [n % 97 for n in range(QUERIES)]})
            client.register_many("SELECT x FROM s WHERE x >= ? AND y = ? BEGIN (NOW - 1000 ROWS)", bounds)
            load, shares = Load(address), list[float]()
            load.turn(0.5, None)
            while len(shares) < TURNS and max(shares, default=0.0) < GOODPUT:
                capacity = load.turn(SECONDS, None)
                shares.append(load.turn(SECONDS, 2 * capacity) / capacity)
                assert resident(zygote.pid) < LIMIT_MIB * 1024 * 1024
            load.close()
            assert set(load.said) <= ENDS, load.said
            assert max(shares) >= GOODPUT, (shares, load.said)
            done = client.push("s", pa.table({"x": [1], "y": [1]}))
            client.wait_for(done.sequence)
            (stream,) = client.streams()
            assert stream.next_tuple_id > load.said["OK"] * ROWS, "what is acknowledged is there"
        assert zygote.stop() == 0
