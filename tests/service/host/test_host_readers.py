"""Running and waiting reads: a quick read always finds a thread, and a read ends with its caller."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from psoup.errors import ResourceExhausted
from psoup.work.read_budget import ReadEnded
from psoup_service.host.reads.readers import LONG_S, Read, Readers
from psoup_service.host.turns.interpreter import SHORT_SECONDS
from psoup_testing.services.host_rig import PATIENCE, happened


class _Held:
    """A read that asks again and again whether it may go on, until it is let go."""

    def __init__(self) -> None:
        self.inside, self.go, self.ended = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, reading: Read) -> str:
        self.inside.set()
        try:
            while not self.go.wait(0.001):
                reading.ask()
            return "done"
        except ReadEnded:
            self.ended.set()
            raise


def _burn(reading: Read) -> str:
    """A read that takes more processor time than a quick one may."""
    end = time.thread_time() + 1.5 * LONG_S
    while time.thread_time() < end:
        pass
    reading.ask()
    return "long"


def _with_readers(threads: int, scenario: Any, most_s: float = 60.0) -> None:
    async def run() -> None:
        readers = Readers(threads, most_s)
        try:
            await scenario(readers)
        finally:
            await asyncio.to_thread(readers.close)

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


def _start(readers: Readers, work: Any, *, long: bool = False, tenant: str = "t") -> asyncio.Task[Any]:
    call: Coroutine[Any, Any, Any] = readers.read(work, tenant=tenant, long=long)
    return asyncio.ensure_future(call)


def test_one_thread_is_free_for_quick_reads_however_many_long_ones_wait() -> None:
    async def scenario(readers: Readers) -> None:
        works = [_Held() for _ in range(4)]
        slow = [_start(readers, work, long=True) for work in works]
        await happened(works[0].inside)
        for _ in range(10):
            assert await readers.read(lambda _: "quick", tenant="t", long=False) == "quick"
        assert not works[1].inside.is_set()
        for work in works:
            work.go.set()
        assert await asyncio.gather(*slow) == ["done"] * 4

    _with_readers(2, scenario)


def test_turns_of_the_interpreter_are_short_while_a_read_is_long() -> None:
    async def scenario(readers: Readers) -> None:
        usual, seen = sys.getswitchinterval(), []

        def look(reading: Read) -> None:
            seen.append(sys.getswitchinterval())
            _burn(reading)
            seen.append(sys.getswitchinterval())

        await readers.read(look, tenant="t", long=False)
        assert seen == [pytest.approx(usual), pytest.approx(SHORT_SECONDS)]
        await readers.read(look, tenant="t", long=True)
        assert seen[2:] == [pytest.approx(SHORT_SECONDS)] * 2
        with pytest.raises(ZeroDivisionError):
            await readers.read(lambda _: 1 / 0, tenant="t", long=True)
        assert sys.getswitchinterval() == pytest.approx(usual)

    _with_readers(1, scenario)


def test_a_read_that_turns_out_to_be_long_steps_aside() -> None:
    async def scenario(readers: Readers) -> None:
        held = _Held()
        first = _start(readers, held, long=True)
        await happened(held.inside)
        second = _start(readers, _burn)
        while not readers.aside:
            assert await readers.read(lambda _: "quick", tenant="t", long=False) == "quick"
        assert await readers.read(lambda _: "quick", tenant="t", long=False) == "quick"
        assert not second.done()
        held.go.set()
        assert await asyncio.gather(first, second) == ["done", "long"]
        assert readers.aside == 0

    _with_readers(2, scenario)


def test_a_read_steps_aside_before_long_work_although_it_has_used_next_to_nothing() -> None:
    """Sixty medians of five million values, each quick up to its sort, kept a quick read waiting for them all."""

    async def scenario(readers: Readers) -> None:
        works = [_Held() for _ in range(4)]

        def announced(work: _Held) -> Any:
            def read(reading: Read) -> str:
                reading.before_long()
                return work(reading)

            return read

        slow = [_start(readers, announced(works[0]))]
        await happened(works[0].inside)
        slow += [_start(readers, announced(work)) for work in works[1:]]
        assert await readers.read(lambda _: "quick", tenant="t", long=False) == "quick"
        assert not works[1].inside.is_set()
        for work in works:
            work.go.set()
        assert await asyncio.gather(*slow) == ["done"] * 4

    _with_readers(2, scenario)


@pytest.mark.seeded("F7: readers work for callers who have left")
def test_a_read_ends_with_its_caller_wherever_it_is() -> None:
    async def scenario(readers: Readers) -> None:
        held, waiting = _Held(), _Held()
        under_way, in_line = _start(readers, held, long=True), _start(readers, waiting, long=True)
        await happened(held.inside)
        aside = _start(readers, _burn)
        while not readers.aside:
            await asyncio.sleep(0)
        for call in (in_line, aside, under_way):
            call.cancel()
        await happened(held.ended)
        assert await readers.read(lambda _: "next", tenant="t", long=True) == "next"
        assert readers.aside == 0
        assert not waiting.inside.is_set(), "nobody waited for it any more"

    _with_readers(2, scenario)


def test_tenants_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(readers: Readers) -> None:
        held, order = _Held(), list[str]()
        charge = readers.times.charge
        monkeypatch.setattr(readers.times, "charge", lambda tenant, _: charge(tenant, 1.0))
        first = _start(readers, held)
        await happened(held.inside)
        calls = [
            _start(readers, lambda _, who=who: order.append(who), tenant=who[0])
            for who in ("a1", "a2", "a3", "b1", "b2")
        ]
        await asyncio.sleep(0)
        held.go.set()
        await asyncio.gather(first, *calls)
        assert order == ["a1", "b1", "a2", "b2", "a3"]

    _with_readers(1, scenario)


def test_a_long_read_gives_its_place_to_that_of_a_tenant_that_had_less() -> None:
    """Joins that never end kept the one place for long reads, and a neighbour's read of 20 ms waited seconds."""

    async def scenario(readers: Readers) -> None:
        endless, go = threading.Event(), threading.Event()

        def join(reading: Read) -> str:
            while not go.is_set():
                _burn(reading)
                endless.set()
            return "join"

        joins = [_start(readers, join, long=True, tenant="a") for _ in range(2)]
        await happened(endless)
        assert await readers.read(_burn, tenant="b", long=True) == "long"
        assert await readers.read(_burn, tenant="b", long=False) == "long"
        waiting = _Held()
        left = _start(readers, waiting, long=True, tenant="b")
        await happened(waiting.inside)
        assert readers.aside == 1, "of a tenant's own long reads the first goes on, and no other begins"
        joins[0].cancel()
        waiting.go.set()
        assert await left == "done"
        go.set()
        assert await joins[1] == "join"
        assert readers.aside == 0

    _with_readers(2, scenario)


def test_a_read_that_has_used_its_processor_time_is_told_what_it_may_use() -> None:
    async def scenario(readers: Readers) -> None:
        with pytest.raises(ResourceExhausted, match=r"one read may use 0.01 s \(read_cpu_s\)") as caught:
            await readers.read(_burn, tenant="t", long=False)
        assert caught.value.reason == "READ_CPU"
        assert caught.value.facts["limit"] == "0.01"

    _with_readers(1, scenario, most_s=0.01)


def test_closing_ends_what_waits() -> None:
    async def scenario(readers: Readers) -> None:
        held = _Held()
        under_way, in_line = _start(readers, held), _start(readers, _Held())
        await happened(held.inside)
        closing = asyncio.ensure_future(asyncio.to_thread(readers.close))
        with pytest.raises(ReadEnded):
            await in_line
        held.go.set()
        assert await under_way == "done"
        await closing
        with pytest.raises(RuntimeError):
            await readers.read(lambda _: None, tenant="t", long=False)

    _with_readers(1, scenario)
