"""The lines before the sequencer: a large push does not hold back all that came behind it, and no order is lost."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest

from psoup.events.commands import CreateStream, Heartbeat, Push, Register
from psoup_service.host.line import LARGE_BYTES, Submission, TenantLines, is_large
from psoup_testing.services.host_rig import happened, held, serving

LARGE = pa.table({"x": range(LARGE_BYTES // 8)})
SMALL = pa.table({"x": [1]})
NONE_OUT: Any = None


def submission(stream: str, size: int, number: int = 0, tenant: str = "default") -> Submission:
    """A push to a stream; `number` tells one from another. Nobody waits for its answer."""
    return Submission(Push(stream, SMALL, "p", 0, number, tenant=tenant), size, NONE_OUT)


def test_small_pushes_of_others_overtake_and_those_of_the_same_stream_do_not() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            await rig.host.submit(CreateStream("CREATE STREAM t (x BIGINT)"))
            with held(rig.store.gate):
                rig.store.inside.clear()
                pushes = [Push("s", LARGE), Push("S", LARGE), Push("s", SMALL), Push("t", LARGE), Push("t", SMALL)]
                calls = [asyncio.ensure_future(rig.host.submit(pushes[0]))]
                await happened(rig.store.inside)
                calls += [asyncio.ensure_future(rig.host.submit(command)) for command in pushes[1:]]
                calls.append(asyncio.ensure_future(rig.host.submit(Register("SELECT x FROM t WHERE x > 1"))))
                await asyncio.to_thread(int)  # all of them are in line now
            answers = await asyncio.gather(*calls)
            order = sorted(range(len(calls)), key=lambda k: answers[k].sequence)
            assert order == [0, 5, 1, 2, 3, 4], "the query first; of each stream in the order of the calls"

    asyncio.run(scenario())


def test_a_large_one_that_is_written_holds_back_large_ones_alone() -> None:
    line = TenantLines()
    for one in (submission("s", LARGE_BYTES), submission("t", LARGE_BYTES), submission("s", 10)):
        line.put(one)
    assert not line.may_take_large(True)
    assert line.may_take_large(False)
    assert line.take_quick() == []
    assert is_large(line.take_large()[0])
    assert not line.may_take_large(False), "it is not decided"
    line.release("default")
    assert not line.may_take_large(True), "that of t is large"
    line.take_large()
    line.release("default")
    assert line.may_take_large(True), "what waited behind s may follow it"
    line.take_large()
    assert not line


def test_what_was_there_before_a_large_one_is_taken_before_it() -> None:
    line = TenantLines()
    line.put(submission("s", 10))
    line.put(submission("s", LARGE_BYTES))
    assert not line.may_take_large(False)
    line.put(submission("t", 10))
    assert line.take_quick()[0].command.stream == "s"  # type: ignore[union-attr]
    assert line.may_take_large(False), "however much comes for other streams: large pushes have their turn"


@pytest.mark.parametrize("seed", range(20))
def test_the_order_of_each_stream_is_kept_and_nothing_is_lost(seed: int) -> None:
    chance, line = random.Random(seed), TenantLines()
    held, took_alone = list[Submission](), list[Submission]()
    put, taken = defaultdict[tuple[str, str], list[int]](list), defaultdict[tuple[str, str], list[int]](list)

    def took(ones: list[Submission]) -> None:
        for one in ones:
            push = one.command
            assert isinstance(push, Push)
            taken[push.tenant, push.stream.lower()].append(push.number)
            line.charge(push.tenant, chance.random())

    for number in range(300):
        tenant, stream = chance.choice(("acme", "umbra", "zeta")), chance.choice("sStu")
        put[tenant, stream.lower()].append(number)
        line.put(submission(stream, chance.choice((10, 10, LARGE_BYTES)), number, tenant))
        while chance.random() < 0.5 and line:
            if held and chance.random() < 0.5:  # a large push is decided long after it was taken, one at a time
                took(held)
                line.release(held.pop().tenant)
            elif line.may_take_large(bool(held) or chance.random() < 0.5):
                (one,) = line.take_large()
                (held if is_large(one) else took_alone).append(one)
                took(took_alone)
                took_alone.clear()
            else:
                took(line.take_quick())
    took(held)
    took(line.drain())
    assert taken == put
    assert not line


def test_a_heartbeat_waits_behind_the_large_pushes_of_its_stream() -> None:
    line = TenantLines()
    line.put(submission("s", LARGE_BYTES))
    line.put(Submission(Heartbeat("s", 5), 0, NONE_OUT))
    assert line.quick is None


def test_a_tenant_that_floods_the_line_waits_behind_one_that_does_not() -> None:
    line = TenantLines()
    for number in range(100):
        line.put(submission("s", 10, number, "loud"))
    assert line.take_quick()
    line.charge("loud", 0.01)
    line.put(submission("s", 10, 0, "quiet"))
    assert line.take_quick()[0].tenant == "quiet"


def test_pushes_of_two_tenants_never_share_an_event() -> None:
    line, row = TenantLines(), SMALL.to_batches()[0]
    for tenant in ("acme", "umbra") * 3:
        line.put(Submission(Push("s", row, tenant=tenant), 10, NONE_OUT))
    taken = [line.take_quick(), line.take_quick()]
    assert [{one.tenant for one in ones} for ones in taken] == [{"acme"}, {"umbra"}]
    assert [len(ones) for ones in taken] == [3, 3], "and those of one do, whatever came between them"
    assert not line
