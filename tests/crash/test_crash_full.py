"""T4 on a real file system: a small tmpfs runs full, reads go on, and when room is made all goes on by itself.

    fill   a file takes what is free ──> pushes until one is refused ──> reads ──> the file goes ──> pushes are taken

Without a reserve, so that writes themselves find no room: of the log, of a chunk, of the manifest. Where tmpfs cannot
be mounted (that needs root), `tests/storage` and `tests/service` have the same with a file system that pretends.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from psoup_client import Client
from psoup_proto.v1 import ingest_pb2, ingest_pb2_grpc
from psoup_testing.crash import disks
from psoup_testing.crash.senders import CREATE, EPOCH, QUERY, batch, check
from psoup_testing.services.wire import ipc
from psoup_testing.services.zygote import Zygote
from psoup_testing.suite.budget import SCALE, SEED, replayable

TIMES = max(3, round(3 * SCALE))
SIZE = 12 * 1024 * 1024 + TIMES * 400_000
"""Each time as much as `fill` leaves is taken for good."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with disks.small_disk(tmp_path / "disk", SIZE) as mounted:
        yield mounted


def outcome(push: Callable[[], int]) -> grpc.StatusCode | None:
    """How a push was refused; None if it was taken."""
    try:
        push()
    except grpc.RpcError as problem:
        code: grpc.StatusCode = problem.code()
        return code
    return None


@pytest.mark.long
def test_a_disk_that_runs_full_and_is_freed_needs_no_restart(small_disk: Path) -> None:
    chance, sent, filler = random.Random(SEED), 0, small_disk / "filler"
    with replayable(SEED), Zygote(PSOUP_TEST_CHUNK_ROWS="64", PSOUP_DISK_RESERVE_MIB="0") as zygote:
        zygote.start(str(small_disk / "data"))
        address = zygote.ready()
        with Client(address, timeout=60) as client, grpc.insecure_channel(address) as channel:
            stub = ingest_pb2_grpc.IngestServiceStub(channel)
            client.create_stream(CREATE)
            query = client.register(QUERY)

            def push(timeout: float = 1.5) -> int:
                payload = ipc(batch(0, sent))
                request = ingest_pb2.PushRequest(stream="s", arrow_ipc=payload, producer="p", epoch=EPOCH, number=sent)
                return int(stub.Push(request, timeout=timeout).sequence)

            for _ in range(TIMES):
                disks.fill(filler, chance.randrange(400_000))
                while (code := outcome(push)) is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                    assert code in (None, grpc.StatusCode.DEADLINE_EXCEEDED)  # it waits for room, or for the processor
                    sent += code is None
                found = check(query.invoke().to_arrow(), [0])  # reads go on, and may lag behind what is acknowledged
                assert found[0] <= sent + 1, "the one that waited may be there"
                filler.unlink()
                patience = time.monotonic() + 60
                while (code := outcome(push)) is not None:  # the one that was refused, or that waits: taken once
                    assert code in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.DEADLINE_EXCEEDED)
                    assert time.monotonic() < patience
                sent += 1
                last = push(20)
                sent += 1
                assert check(query.invoke(wait_for=last).to_arrow(), [sent]) == [sent]
        assert zygote.stop() == 0
