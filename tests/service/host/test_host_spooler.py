"""Large pushes on their way to the disk: no command waits for them, stream order stays, refusals write nothing.

The store is a real one in most of them; its pieces are small, so that there are many.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from psoup.errors import Conflict, Internal, InvalidBatch, NotFound, PSoupError, ResourceExhausted
from psoup.events.acknowledgements import PushAcknowledgement
from psoup.events.commands import AlterStream, Command, CreateStream, DropStream, Heartbeat, Push, Register
from psoup.events.events import Pushed
from psoup.events.tenants import AlterTenant, CreateTenant
from psoup.values.columns import Array, Batch
from psoup_service.host import line, spooler
from psoup_storage import DurableStore
from psoup_storage.contract import Spooled
from psoup_storage.durable.log import log, ready
from psoup_testing.services.host_rig import PATIENCE, Gate, Rig, happened
from psoup_testing.suite.budget import SEED
from psoup_testing.suite.sweeps import swept

LARGE = pa.table({"x": range(4_000)})
SMALL = pa.table({"x": [1]})


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "SLICE_BYTES", 4_096)
    monkeypatch.setattr(ready, "SMALL_PUSH", 4_096)
    monkeypatch.setattr(line, "LARGE_BYTES", 16_384)


class HeldStore(DurableStore):
    """A real store whose spooling can be held, or fail; `spooled`: the rows of each spool."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.gate, self.inside = Gate(), threading.Event()
        self.problem: Exception | None = None
        self.rows: list[int] = []
        self._spool, self.spool = self.spool, self.spool_held

    def spool_held(self, batch: Batch, pace: Callable[[], int]) -> Spooled | None:
        """Note it, and wait at the gate."""
        self.rows.append(len(batch))
        self.inside.set()
        self.gate.pass_through()
        if self.problem is not None:
            raise self.problem
        return self._spool(batch, pace)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[HeldStore]:
    opened = HeldStore(tmp_path / "data")
    yield opened
    opened.gate.set()
    opened.close()


Scenario = Callable[[Rig], Awaitable[None]]


def play(scenario: Scenario, store: HeldStore, **settings: int) -> None:
    """Play a scenario on a host with the streams s and t, and close it."""

    async def whole() -> None:
        rig = Rig(store, **settings)  # type: ignore[arg-type]
        rig.host.start()
        try:
            for stream in "st":
                await rig.host.submit(CreateStream(f"CREATE STREAM {stream} (x BIGINT)"))
            await scenario(rig)
        finally:
            store.gate.set()
            await asyncio.to_thread(rig.host.close)

    asyncio.run(asyncio.wait_for(whole(), PATIENCE))


async def spooling(rig: Rig, store: HeldStore, push: Push) -> asyncio.Future[object]:
    """A large push that is held at the spooler; open the store's gate to let it go on."""
    store.gate.clear()
    store.inside.clear()
    call = asyncio.ensure_future(rig.host.submit(push))
    await happened(store.inside)
    return call


def events(path: Path) -> list[object]:
    """What a start finds."""
    store = DurableStore(path)
    try:
        return list(store.read())
    finally:
        store.close()


@pytest.mark.seeded("commands pass a large push of their stream")
@pytest.mark.seeded("two are spooled at a time")
def test_while_a_large_push_is_spooled_others_go_on_and_its_stream_waits(store: HeldStore) -> None:
    async def scenario(rig: Rig) -> None:
        large = await spooling(rig, store, Push("s", LARGE))
        behind = [Push("S", SMALL), Heartbeat("s", 5), Push("s", LARGE), Push("t", LARGE)]
        calls = [asyncio.ensure_future(rig.host.submit(command)) for command in behind]
        before = [await rig.host.submit(command) for command in (Push("t", SMALL), Register("SELECT x FROM t"))]
        assert not large.done() and not any(call.done() for call in calls)
        store.gate.set()
        first = await large
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(first, PushAcknowledgement) and first.sequence > max(one.sequence for one in before)
        assert isinstance(answers[1], PSoupError), "the stream is in system time: it came to its turn"
        later = [answers[0], answers[2], answers[3]]
        assert [one.sequence for one in later if isinstance(one, PushAcknowledgement)] == [
            first.sequence + 1,
            first.sequence + 2,
            first.sequence + 3,
        ]
        assert store.rows == [4_000, 4_000, 4_000]

    play(scenario, store)
    pushed = [event for event in events(store.path) if isinstance(event, Pushed)]
    assert [len(event.batch) for event in pushed] == [1, 4_000, 1, 4_000, 4_000]


@pytest.mark.seeded("a push that will be refused is spooled")
@pytest.mark.seeded("a refusal of the disk is swallowed")
def test_a_push_that_is_refused_or_known_writes_nothing(store: HeldStore) -> None:
    async def scenario(rig: Rig) -> None:
        first = await rig.host.submit(Push("s", LARGE, "p", 0, 0, b"digest"))
        again = await rig.host.submit(Push("s", LARGE, "p", 0, 0, b"digest"))
        assert isinstance(first, PushAcknowledgement) and isinstance(again, PushAcknowledgement)
        assert again.duplicate and again.sequence == first.sequence
        with pytest.raises(Conflict):
            await rig.host.submit(Push("s", LARGE, "p", 0, 0, b"another"))
        with pytest.raises(NotFound):
            await rig.host.submit(Push("u", LARGE))
        with pytest.raises(InvalidBatch):
            await rig.host.submit(Push("s", pa.table({"y": range(4_000)})))
        with pytest.raises(ResourceExhausted):
            await rig.host.submit(Push("s", pa.table({"x": range(200_000)})))
        await rig.host.submit(AlterTenant("default", {"tuple_bytes": 10_000}))
        rig.admission.judge.share(lambda: Published())  # type: ignore[arg-type, return-value]
        with pytest.raises(ResourceExhausted, match="tuple_bytes"):
            await rig.host.submit(Push("s", LARGE))

    class Published:
        sequence, by_id = 0, dict[int, object]()

    play(scenario, store, memory_bytes=1_000_000)
    assert store.rows == [4_000]


@pytest.mark.seeded("commands pass a large push of their stream")
@pytest.mark.seeded("two are spooled at a time")
def test_tenants_spool_one_after_the_other(store: HeldStore) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.host.submit(CreateTenant("acme"))
        await rig.host.submit(CreateStream("CREATE STREAM a (x BIGINT)", "acme"))
        calls = [await spooling(rig, store, Push("s", LARGE))]
        calls.append(asyncio.ensure_future(rig.host.submit(Push("a", LARGE, tenant="acme"))))
        await rig.host.submit(Push("t", SMALL))
        assert store.rows == [4_000]
        store.gate.set()
        first, second = await asyncio.gather(*calls)
        assert isinstance(first, PushAcknowledgement) and isinstance(second, PushAcknowledgement)
        assert second.sequence == first.sequence + 1 and store.rows == [4_000, 4_000]

    play(scenario, store)


@pytest.mark.seeded("what was spooled is named by an event of other rows, or of another stream")
@pytest.mark.parametrize(
    ("meanwhile", "columns"),
    [
        ([DropStream("s")], None),
        ([DropStream("s"), CreateStream("CREATE STREAM s (x DOUBLE)")], [np.arange(4_000.0)]),
        ([AlterStream("ALTER STREAM s ADD COLUMN y BIGINT")], [np.arange(4_000), np.zeros(4_000, np.int64)]),
    ],
    ids=["dropped", "another", "altered"],
)
def test_the_stream_of_what_is_spooled_may_change(
    store: HeldStore, meanwhile: list[Command], columns: list[Array] | None
) -> None:
    """What a call says to a stream that changes at the same time is decided when it comes to its turn."""

    async def scenario(rig: Rig) -> None:
        large = await spooling(rig, store, Push("s", LARGE))
        for command in meanwhile:
            await rig.host.submit(command)
        store.gate.set()
        if columns is None:
            with pytest.raises(NotFound):
                await large
        else:
            await large
        await rig.host.submit(Push("t", SMALL))

    play(scenario, store)
    pushed = [event for event in events(store.path) if isinstance(event, Pushed)]
    assert [len(event.batch) for event in pushed] == ([1] if columns is None else [4_000, 1])
    for expected, column in zip(columns or [], pushed[0].batch.columns, strict=columns is not None):
        assert column.values.dtype == expected.dtype and np.array_equal(column.values, expected)


@pytest.mark.seeded("a push that will be refused is spooled")
@pytest.mark.seeded("a refusal of the disk is swallowed")
def test_without_room_for_its_pieces_one_push_is_refused(store: HeldStore) -> None:
    async def scenario(rig: Rig) -> None:
        store.problem = ResourceExhausted("no room", reason="DISK_FULL")
        for _ in range(2):
            with pytest.raises(ResourceExhausted, match="no room"):
                await rig.host.submit(Push("s", LARGE))
        await rig.host.submit(Push("s", SMALL))
        store.problem = None
        await rig.host.submit(Push("s", LARGE))
        assert rig.host.state == "serving"

    play(scenario, store)


@pytest.mark.seeded("an end of the service leaves the caller of a spooled push waiting")
def test_a_disk_that_fails_under_a_piece_ends_the_host_and_nobody_waits(store: HeldStore) -> None:
    async def scenario(rig: Rig) -> None:
        large = await spooling(rig, store, Push("s", LARGE))
        calls = [asyncio.ensure_future(rig.host.submit(Push("s", batch))) for batch in (SMALL, LARGE)]
        await asyncio.to_thread(int)
        store.problem = Internal("the disk", reason="STORAGE_FAILED")
        store.gate.set()
        for call in (large, *calls):
            with pytest.raises(PSoupError):
                await call
        assert rig.host.state == "failed" and "psoup-spooler" in rig.host.failure

    play(scenario, store)
    assert [type(event).__name__ for event in events(store.path)] == ["StreamCreated"] * 2


def test_an_orderly_end_finishes_what_is_spooled(store: HeldStore) -> None:
    async def scenario(rig: Rig) -> None:
        large = await spooling(rig, store, Push("s", LARGE))
        calls = [asyncio.ensure_future(rig.host.submit(Push("s", batch))) for batch in (SMALL, LARGE)]
        await asyncio.to_thread(int)
        end = asyncio.ensure_future(rig.host.drain(PATIENCE))
        await asyncio.to_thread(int)
        store.gate.set()
        assert await end
        assert all(isinstance(one, PushAcknowledgement) for one in [await large, *await asyncio.gather(*calls)])

    play(scenario, store)
    assert [len(event.batch) for event in events(store.path) if isinstance(event, Pushed)] == [4_000, 1, 4_000]


@pytest.mark.seeded("an end of the service leaves the caller of a spooled push waiting")
def test_a_sudden_end_refuses_what_is_spooled(store: HeldStore) -> None:
    async def scenario(rig: Rig) -> None:
        calls = [await spooling(rig, store, Push("s", LARGE))]
        calls += [asyncio.ensure_future(rig.host.submit(Push("s", batch))) for batch in (SMALL, LARGE)]
        await asyncio.to_thread(int)
        end = asyncio.ensure_future(asyncio.to_thread(rig.host.close))
        while not rig.host._sequencer._stopping:
            await asyncio.to_thread(int)
        store.gate.set()
        await end
        for call in calls:
            with pytest.raises(PSoupError):
                await call

    play(scenario, store)
    assert not any(isinstance(event, Pushed) for event in events(store.path))


@pytest.mark.parametrize("seed", swept(range(SEED, SEED + 3), fast=1))
def test_what_was_acknowledged_is_there_whenever_the_process_ends(store: HeldStore, tmp_path: Path, seed: int) -> None:
    """Producers push to three streams at once; copies of the directory are what kill -9 would leave."""
    chance = random.Random(seed)
    acknowledged = defaultdict[str, int](int)
    copies: list[tuple[Path, dict[str, int]]] = []

    async def produce(rig: Rig, stream: str) -> None:
        for number in range(12):
            rows = chance.choice((1, 3, 4_000, 9_000))
            table = pa.table({"x": pa.array([number] * rows, pa.int64())})
            await rig.host.submit(Push(stream, table, stream, 0, number))
            acknowledged[stream] = number + 1

    async def kill() -> None:
        for number in range(6):
            for _ in range(chance.randrange(40)):
                await asyncio.to_thread(int)
            known = dict(acknowledged)
            with store._database._lock:  # between two writes: torn ones have tests of their own
                target = shutil.copytree(store.path, tmp_path / f"copy-{number}", ignore=shutil.ignore_patterns("lock"))
            copies.append((target, known))

    async def scenario(rig: Rig) -> None:
        await rig.host.submit(CreateStream("CREATE STREAM u (x BIGINT)"))
        await asyncio.gather(kill(), *(produce(rig, stream) for stream in "stu"))

    play(scenario, store)
    expected = events(store.path)
    assert sum(isinstance(event, Pushed) for event in expected) == 36
    for path, known in copies:
        found, count = events(path), defaultdict[int, int](int)
        assert [one.sequence for one in found] == [one.sequence for one in expected[: len(found)]]  # type: ignore[attr-defined]
        for event, same in zip(found, expected, strict=False):
            if isinstance(event, Pushed):
                assert isinstance(same, Pushed)
                assert event.number == count[event.stream_id], "in the order in which each producer sent them"
                assert event.batch.columns[0].values.tolist() == same.batch.columns[0].values.tolist()
                count[event.stream_id] += 1
        for stream, (least, number) in enumerate(zip((known.get(name, 0) for name in "stu"), "stu", strict=True), 1):
            assert count[stream] >= least, number


def test_pieces_are_larger_while_nobody_else_pushes(store: HeldStore, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(rig: Rig) -> None:
        for seconds, expected in ((0.0, spooler.ALONE_PIECES), (3_600.0, 1)):
            monkeypatch.setattr(spooler, "ALONE_SECONDS", seconds)
            await rig.host.submit(Push("t", SMALL))
            assert rig.host._sequencer._spooler._pace() == expected

    play(scenario, store)
