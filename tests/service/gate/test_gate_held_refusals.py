"""Refusals by a quota are delayed only for callers that ask again at once. The clock stands still."""

from __future__ import annotations

import asyncio

import pytest

from psoup.errors import InvalidInput, PSoupError, ResourceExhausted
from psoup_service.gate import held_refusals
from psoup_service.gate.held_refusals import FEW, MOST, HeldRefusals

REFUSAL = ResourceExhausted("too many calls", reason="QUOTA")
OFTEN = int(10 * FEW)


class Rig:
    """Refusals at one moment of a clock."""

    def __init__(self) -> None:
        self.clock = 100.0
        self.refusals = HeldRefusals(lambda: self.clock)

    async def held(self, tenant: str, error: PSoupError = REFUSAL) -> asyncio.Task[None] | None:
        """A refusal that is held; None if it was answered at once."""
        task = asyncio.create_task(self.refusals.hold(tenant, error))
        await asyncio.sleep(0)
        return None if task.done() else task

    async def held_of(self, tenant: str, count: int) -> list[asyncio.Task[None]]:
        """Those of so many refusals that are held."""
        return [task for _ in range(count) if (task := await self.held(tenant)) is not None]


@pytest.fixture(autouse=True)
def long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_refusals, "HELD_S", 1_000.0)


def test_many_refusals_are_held_up_to_a_bound_and_others_are_not() -> None:
    async def script() -> None:
        rig = Rig()
        assert not await rig.held_of("loud", int(FEW))
        held = await rig.held_of("loud", OFTEN)
        assert len(held) == MOST
        assert not await rig.held("quiet")
        for error in (InvalidInput("no"), ResourceExhausted("the room is full", reason="BUSY")):
            assert not await rig.held("loud", error)
        for task in held:
            task.cancel()
        await asyncio.gather(*held, return_exceptions=True)
        assert await rig.held("loud")  # places are free again

    asyncio.run(script())


def test_who_waits_is_answered_at_once_again() -> None:
    async def script() -> None:
        rig = Rig()
        assert await rig.held_of("loud", OFTEN)
        rig.clock += 10
        assert not await rig.held("loud")
        for _ in range(50):
            rig.clock += 0.25
            assert not await rig.held("loud")

    asyncio.run(script())


def test_what_is_held_is_answered_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def script() -> None:
        monkeypatch.setattr(held_refusals, "HELD_S", 0.001)
        held = await Rig().held_of("loud", OFTEN)
        assert len(held) >= MOST  # some may have been answered meanwhile
        async with asyncio.timeout(30):
            await asyncio.gather(*held)

    asyncio.run(script())
