"""Slow registrations are bound beside quick ones, and decided by the state at their end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pyarrow as pa
import pytest

from psoup.admission.queries.bind_steps import Binding, takes_long
from psoup.errors import Conflict, FailedPrecondition, InvalidInput, NotFound, ResourceExhausted, SqlError, Unavailable
from psoup.events.acknowledgements import QueriesAcknowledgement
from psoup.events.commands import AlterStream, CreateStream, DropStream, Push, Register, RegisterMany, Unregister
from psoup.events.events import RegisteredMany
from psoup.sql.parser.guards import MAX_BYTES
from psoup_testing.services.host_rig import PATIENCE, Gate, Rig, happened, serving
from psoup_testing.suite.sweeps import swept

ROW = Push("s", pa.record_batch({"x": [1]}))
LONG = "SELECT x FROM s WHERE x IN (" + ", ".join(map(str, range(300))) + ")"
BLOCK = [f"SELECT x FROM s WHERE x + {number} > {'1' * (1 + number % 3)} OR x = {number}" for number in range(60)]
ROWS = pa.table({"x": range(1_000)})


class Held:
    """Bindings on the binder's thread wait at a gate; `begun` is set when one does.

    `finished`: the commands whose bindings have ended there, in order.
    """

    def __init__(self) -> None:
        self.gate, self.begun = Gate(), threading.Event()
        self.bindings: set[Binding] = set()
        self.finished: list[Any] = []

    def wrap(self, advance: Callable[..., bool]) -> Callable[..., bool]:
        """Instead of `Binding.advance`."""

        def held(binding: Binding, *values: Any) -> bool:
            if threading.current_thread().name != "psoup-binder":
                return advance(binding, *values)
            self.bindings.add(binding)
            self.begun.set()
            self.gate.pass_through()
            done = advance(binding, *values)
            if done:
                self.finished.append(binding.command)
            return done

        return held


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    made = Held()
    monkeypatch.setattr(Binding, "advance", made.wrap(Binding.advance))
    return made


@asynccontextmanager
async def being_bound(held: Held, command: Any, **settings: int) -> AsyncIterator[tuple[Rig, asyncio.Future[Any]]]:
    """The command waits in the binder."""
    held.gate.clear()
    async with serving(**settings) as rig:
        answer = asyncio.ensure_future(rig.host.submit(command))
        await happened(held.begun)
        yield rig, answer
        held.gate.set()
        if not answer.done():
            answer.cancel()


@pytest.mark.seeded("F8: thousands of statements are bound in one go")
@pytest.mark.parametrize(
    "command",
    [Register(LONG), RegisterMany(BLOCK), RegisterMany(["SELECT x FROM s WHERE x = ?"], ROWS)],
    ids=["statement", "statements", "rows"],
)
def test_others_are_answered_while_a_registration_is_bound(held: Held, command: Any) -> None:
    async def scenario() -> None:
        async with being_bound(held, command) as (rig, answer):
            assert takes_long(command)
            pushed = await rig.host.submit(ROW)
            small = await rig.host.submit(Register("SELECT x FROM s WHERE x > 5"))
            assert not answer.done()
            held.gate.set()
            done = await answer
            assert (pushed.sequence, small.sequence, done.sequence) == (2, 3, 4)
            event = next(event for event in rig.store.read() if event.sequence == 4)
            if isinstance(done, QueriesAcknowledgement):
                assert isinstance(event, RegisteredMany)
                assert (done.first_id, done.count, len(event.queries)) == (2, command.count, command.count)

    asyncio.run(scenario())


def test_a_stream_that_is_altered_meanwhile_is_looked_at_again(held: Held) -> None:
    async def scenario() -> None:
        async with being_bound(held, RegisterMany([f"SELECT * FROM s WHERE x > {n} OR x < 0" for n in range(60)])) as (
            rig,
            answer,
        ):
            await rig.host.submit(AlterStream("ALTER STREAM s ADD COLUMN y BIGINT"))
            held.gate.set()
            done = await answer
            [event] = [event for event in rig.store.read() if event.sequence == done.sequence]
            assert isinstance(event, RegisteredMany)
            assert {len(query.select) for query in event.queries} == {2}, "all of the block knows the column"

    asyncio.run(scenario())


def test_a_stream_that_is_dropped_or_made_anew_meanwhile(held: Held) -> None:
    async def scenario() -> None:
        async with being_bound(held, Register(LONG)) as (rig, answer):
            await rig.host.submit(DropStream("s"))
            held.gate.set()
            with pytest.raises(SqlError, match="'s'"):
                await answer
        held.begun.clear()
        async with being_bound(held, Register(LONG)) as (rig, answer):
            await rig.host.submit(DropStream("s"))
            await rig.host.submit(CreateStream("CREATE STREAM s (x TEXT)"))
            held.gate.set()
            with pytest.raises(InvalidInput):
                await answer
            assert await rig.host.submit(ROW_OF_TEXT)

    asyncio.run(scenario())


ROW_OF_TEXT = Push("s", pa.record_batch({"x": ["1"]}))


@pytest.mark.long
def test_streams_that_change_again_and_again_end_it(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with being_bound(held, Register(LONG)) as (rig, answer):
            monkeypatch.setattr(rig.admission, "stands", lambda binding: False)
            monkeypatch.setattr(Binding, "stands", lambda binding, tenant: False)
            held.gate.set()
            with pytest.raises(FailedPrecondition, match="send it again"):
                await answer
            assert len(held.bindings) == 3

    asyncio.run(scenario())


def test_a_budget_that_others_use_up_meanwhile(held: Held) -> None:
    async def scenario() -> None:
        async with being_bound(held, RegisterMany(BLOCK), memory_bytes=60 * 3_100) as (rig, answer):
            await rig.host.submit(Register("SELECT x FROM s"))
            await rig.host.submit(Register("SELECT x FROM s"))
            await rig.host.submit(Register("SELECT x FROM s"))
            held.gate.set()
            with pytest.raises(ResourceExhausted, match="memory budget"):
                await answer
            assert (await rig.host.submit(Unregister(1))).sequence == 5

    asyncio.run(scenario())


@pytest.mark.parametrize(("first", "second"), swept([(Register, Register), (RegisterMany, RegisterMany)], fast=1))
def test_a_request_that_is_repeated_meanwhile_is_registered_once(held: Held, first: Any, second: Any) -> None:
    async def scenario() -> None:
        what: Any = LONG if first is Register else BLOCK
        async with being_bound(held, first(what, request_id="r")) as (rig, answer):
            again = asyncio.ensure_future(rig.host.submit(second(what, request_id="r")))
            other = asyncio.ensure_future(rig.host.submit(Register(LONG + " OR x = 7", request_id="r")))
            await asyncio.to_thread(int)
            held.gate.set()
            outcomes = await asyncio.gather(answer, again, other, return_exceptions=True)
            taken = [each for each in outcomes if not isinstance(each, Exception) and not each.duplicate]
            assert len(taken) == 1
            same = [each for each in outcomes[:2] if not isinstance(each, Conflict)]  # whichever of them came first
            assert len(same) != 1 and all(each.sequence == taken[0].sequence for each in same)
            assert sum(isinstance(each, Conflict) for each in outcomes) in (1, 2)
            registered = [event.sequence for event in rig.store.read() if event.sequence > 1]
            assert registered == [taken[0].sequence]

    asyncio.run(scenario())


def test_what_is_wrong_is_said_as_ever(held: Held) -> None:
    async def scenario() -> None:
        async with serving() as rig:
            for command, said in [
                (RegisterMany([*BLOCK, "SELECT y FROM s"]), "query 61: .* has no column 'y'"),
                (RegisterMany(["SELECT x FROM s WHERE x = ?"], pa.table({"x": ["a"] * 999})), "parameter 1 of query 1"),
                (RegisterMany(["SELECT x FROM s"] * 200_000), "is the most, send it in parts"),
                (Register("SELECT x FROM s WHERE " + " OR ".join(["x = 1"] * 300) + " 7"), "7"),
                (Register("x" * (MAX_BYTES + 1)), "longer than"),
            ]:
                with pytest.raises(InvalidInput, match=said):
                    await rig.host.submit(command)
            with pytest.raises((NotFound, SqlError)):
                await rig.host.submit(Register(LONG.replace("FROM s", "FROM nowhere")))
            assert rig.host.counters()["pending_commands"] == rig.host.counters()["queued_bytes"] == 0

    asyncio.run(scenario())


def test_a_caller_who_leaves_is_left_out(held: Held) -> None:
    async def scenario() -> None:
        async with being_bound(held, RegisterMany(BLOCK)) as (rig, answer):
            answer.cancel()
            await asyncio.gather(answer, return_exceptions=True)
            held.gate.set()
            done = await rig.host.submit(Register(LONG))  # comes behind it
            assert done.sequence == 2
            assert rig.host.counters()["pending_commands"] <= 1

    asyncio.run(scenario())


def test_the_next_one_does_not_wait_for_the_end_of_a_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of one step: of two blocks that came together the small one is bound first."""
    for name in ("SLICE_SECONDS", "LEAST_S"):
        monkeypatch.setattr(f"psoup_service.host.binder.{name}", 0.0)
    gate, begun = Gate(), threading.Event()
    monkeypatch.setattr(Binding, "advance", Held.wrap(hold := Held(), Binding.advance))
    hold.gate, hold.begun = gate, begun

    async def scenario() -> None:
        block, short = RegisterMany(BLOCK * 5), RegisterMany([LONG])
        async with being_bound(hold, block) as (rig, large):
            small = asyncio.ensure_future(rig.host.submit(short))
            while _waiting(rig) < 2:
                await asyncio.to_thread(int)
            gate.set()
            assert {done.sequence for done in await asyncio.gather(small, large)} == {2, 3}
            assert [command.count for command in hold.finished] == [short.count, block.count]

    asyncio.run(scenario())


@pytest.mark.long
def test_a_sender_of_many_registrations_has_the_turns_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of one step: what came last, from another sender, is bound first of blocks of one length."""
    monkeypatch.setattr("psoup_service.host.binder.SLICE_SECONDS", 0.0)
    hold = Held()
    monkeypatch.setattr(Binding, "advance", hold.wrap(Binding.advance))

    async def scenario() -> None:
        async with being_bound(hold, RegisterMany(BLOCK)) as (rig, first):
            others = [asyncio.ensure_future(rig.host.submit(RegisterMany(BLOCK))) for _ in range(20)]
            left = others.pop()
            alone = asyncio.ensure_future(rig.host.submit(RegisterMany(BLOCK), sender="another"))
            while _waiting(rig) < 22:
                await asyncio.to_thread(int)
            left.cancel()
            hold.gate.set()
            assert (await alone).sequence == 2
            assert sorted([each.sequence for each in await asyncio.gather(first, *others)]) == list(range(3, 23))
            assert not rig.host._sequencer.binder.has_work()

    asyncio.run(scenario())


def _waiting(rig: Rig) -> int:
    return sum(len(jobs) for senders in rig.host._sequencer.binder._works.values() for jobs in senders.values())


def test_a_drain_waits_for_what_is_bound_and_a_close_does_not(held: Held) -> None:
    async def scenario() -> None:
        async with being_bound(held, RegisterMany(BLOCK)) as (rig, answer):
            draining = asyncio.ensure_future(rig.host.drain(PATIENCE))
            await asyncio.to_thread(int)
            held.gate.set()
            assert await draining
            assert (await answer).sequence == 2
        held.begun.clear()
        async with being_bound(held, RegisterMany(BLOCK)) as (rig, answer):
            closing = asyncio.ensure_future(asyncio.to_thread(rig.host.close))
            while not rig.host._sequencer._stopping:
                await asyncio.to_thread(int)
            held.gate.set()
            await closing
            with pytest.raises(Unavailable):
                await answer

    asyncio.run(scenario())
