"""The room of stages: parts without rows fill it too, no sender takes all of it, and silent stages make way."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable

import grpc
import pyarrow as pa
import pytest

from psoup.errors import FailedPrecondition, InvalidInput, NotFound, ResourceExhausted
from psoup.events.tenants import Tenant
from psoup_proto.v1 import staging_pb2 as staging
from psoup_service.host.turns.fair_turns import Weights
from psoup_service.process.settings import Settings
from psoup_service.wire.stages import (
    COLUMN_BYTES,
    MOST_PARTS,
    MOST_STAGES,
    PART_BYTES,
    BatchKey,
    StagedPart,
    Stages,
    read_token,
)
from psoup_testing.services.wire import Wire, ipc, refused, run, sharing
from psoup_testing.suite.call_counts import calls_of

WIDE = pa.schema([(f"c{place}", pa.int64()) for place in range(100)])
EMPTY = StagedPart.of(WIDE.empty_table(), 136)
MIB = 2**20


def batch(producer: str = "p", tenant: str = "t") -> BatchKey:
    return BatchKey(tenant, "s", producer, 0, 0)


def of_size(size: int) -> StagedPart:
    return StagedPart.of(pa.table({"x": pa.array([0] * ((size - PART_BYTES - COLUMN_BYTES) // 8))}), 0)


def on_a_loop(script: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await script()

    asyncio.run(main())


@pytest.mark.seeded("F10: parts without rows")
def test_parts_without_rows_cost_room_and_no_time() -> None:
    async def script() -> None:
        stages = Stages(1_024 * MIB, 60)
        stage = stages.open(batch(), 1)
        assert EMPTY.nbytes == PART_BYTES + 100 * COLUMN_BYTES + 136
        stages.put(stage, "first", EMPTY)
        early = calls_of(lambda: stages.put(stage, "second", EMPTY))
        for number in range(MOST_PARTS - 3):
            stages.put(stage, str(number), EMPTY)
        assert calls_of(lambda: stages.put(stage, "last", EMPTY)) == early
        assert stages.nbytes == MOST_PARTS * EMPTY.nbytes
        with pytest.raises(ResourceExhausted) as caught:
            stages.put(stage, "one more", EMPTY)
        assert caught.value.reason == "TOO_MANY_PARTS"
        stages.put(stage, "last", EMPTY)  # in the place of itself
        stages.check()
        stages.drop(stage)
        assert stages.nbytes == 0

    on_a_loop(script)


def test_a_message_that_a_part_keeps_in_memory_is_charged() -> None:
    assert StagedPart.of(WIDE.empty_table(), 16 * MIB).nbytes > 16 * MIB


def test_a_part_whose_columns_share_their_place_is_charged_each() -> None:
    table = pa.table({f"t{place}": ["a" * 100_000] for place in range(16)})
    shared = pa.ipc.open_stream(sharing(table, 1)).read_all()
    assert StagedPart.of(shared, 100_000).nbytes >= StagedPart.of(table, 100_000).nbytes > 16 * 100_000


def test_one_sender_does_not_take_all() -> None:
    async def script() -> None:
        stages = Stages(4 * MIB, 60)
        large, small = stages.open(batch("large"), 1), stages.open(batch("small"), 1)
        stages.put(large, "a", of_size(3 * MIB - 100_000))
        with pytest.raises(ResourceExhausted, match="three quarters") as caught:
            stages.put(large, "b", of_size(200_000))
        assert (caught.value.reason, "retry_after_ms" in caught.value.facts) == ("STAGES_FULL", False)
        stages.put(small, "a", of_size(MIB))
        stages.check()

    on_a_loop(script)


def test_what_one_tenant_stages_leaves_anothers_own_part() -> None:
    async def script() -> None:
        tenants = {name: Tenant(name) for name in ("loud", "quiet")}
        stages = Stages(4 * MIB, 60, weights=Weights(lambda: tenants))
        loud = [stages.open(batch(str(number), "loud"), 1) for number in range(3)]
        stages.put(loud[0], "a", of_size(2 * MIB))
        stages.put(loud[1], "a", of_size(MIB))
        with pytest.raises(ResourceExhausted) as caught:
            stages.put(loud[2], "a", of_size(MIB // 4))
        assert (caught.value.reason, "retry_after_ms" in caught.value.facts) == ("STAGES_FULL", True)
        quiet = stages.open(batch(tenant="quiet"), 2)
        stages.put(quiet, "a", of_size(MIB // 2))
        stages.put(quiet, "b", of_size(MIB // 2))
        stages.put(quiet, "b", of_size(MIB // 4))  # a smaller one in its place
        stages.check()
        for stage in (*loud, quiet):
            stages.drop(stage)
        assert stages.nbytes == 0

    on_a_loop(script)


def test_the_largest_silent_stage_makes_way_and_small_ones_stay() -> None:
    async def script() -> None:
        stages = Stages(4 * MIB, 60, make_way_after=0)
        small, large, mine = (stages.open(batch(name), 1) for name in ("small", "large", "mine"))
        stages.put(small, "a", of_size(MIB))
        stages.put(large, "a", of_size(2 * MIB))
        stages.put(mine, "a", of_size(2 * MIB))
        assert len(stages) == 2
        with pytest.raises(NotFound):
            stages.find(large.token, "t")
        stages.put(small, "b", of_size(MIB // 4))
        with pytest.raises(ResourceExhausted) as caught:
            stages.put(stages.open(batch("other"), 1), "a", of_size(3 * MIB))  # `mine` goes, and `small` has its share
        assert "retry_after_ms" in caught.value.facts
        stages.find(small.token, "t")
        stages.check()

    on_a_loop(script)


def test_a_stage_within_its_tenants_part_does_not_make_way_for_another_tenant() -> None:
    async def script() -> None:
        tenants = {name: Tenant(name) for name in ("loud", "quiet")}
        stages = Stages(4 * MIB, 60, make_way_after=0, weights=Weights(lambda: tenants))
        quiet = stages.open(batch(tenant="quiet"), 1)
        stages.put(quiet, "a", of_size(MIB))
        for number in range(30):  # the share of a stage is less with each
            stages.open(batch(f"empty {number}", "loud"), 2)
        first, second = (stages.open(batch(name, "loud"), 2) for name in ("first", "second"))
        stages.put(first, "a", of_size(MIB * 3 // 4))
        stages.put(second, "a", of_size(3 * MIB - 100_000))
        stages.find(quiet.token, "quiet")
        assert len(stages) == 32, "only another one of its own made way"
        stages.check()

    on_a_loop(script)


def test_a_stage_that_is_alive_or_being_committed_does_not_make_way() -> None:
    async def script() -> None:
        for wait, committing in ((60.0, False), (0.0, True)):
            stages = Stages(4 * MIB, 60, make_way_after=wait)
            large, mine = stages.open(batch("large"), 1), stages.open(batch("mine"), 1)
            stages.put(large, "a", of_size(3 * MIB))
            large.committing = committing
            with pytest.raises(ResourceExhausted, match="hold") as caught:
                stages.put(mine, "a", of_size(2 * MIB))
            assert "retry_after_ms" in caught.value.facts
            stages.check()

    on_a_loop(script)


def test_a_tenant_has_so_many_stages() -> None:
    async def script() -> None:
        stages = Stages(4 * MIB, 60)
        opened = [stages.open(batch(f"p{number}"), 1) for number in range(MOST_STAGES)]
        with pytest.raises(ResourceExhausted) as caught:
            stages.open(batch("one more"), 1)
        assert caught.value.reason == "TOO_MANY_STAGES"
        stages.open(batch("one more", "another tenant"), 1)
        stages.open(batch("p0"), 1)  # in the place of its first
        silent = Stages(4 * MIB, 60, make_way_after=0)
        opened = [silent.open(batch(f"p{number}"), 1) for number in range(MOST_STAGES)]
        silent.open(batch("one more"), 1)
        assert len(silent) == MOST_STAGES
        with pytest.raises(NotFound):
            silent.find(opened[0].token, "t")
        silent.check()

    on_a_loop(script)


def test_names_are_looked_at_once() -> None:
    async def script() -> None:
        stage = Stages(512 * MIB, 60).open(batch(), 1)
        stage.parts = {str(number): EMPTY for number in range(2_000)}
        names = [str(number) for number in range(2_000)]
        with pytest.raises(InvalidInput, match="'1999' is named twice"):
            stage.chosen([*names, "1999"])
        with pytest.raises(FailedPrecondition, match="'x' has not come"):
            stage.chosen([*names, "x"])

    on_a_loop(script)


@pytest.mark.parametrize("number", [2**70, -(2**70), 1.5, True, None, "7"])
def test_a_forged_name_of_a_stage_is_refused(number: object) -> None:
    def token(*said: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(said).encode()).decode()

    assert read_token(token("x", "s", "p", 0, 7, 0), "t").number == 7
    for forged in (
        token("x", "s", "p", 0, number, 0),
        token("x", "s", "p", number, 0, 0),
        token("x", "\ud800", "p", 0, 0, 0),
    ):
        with pytest.raises(InvalidInput, match="not the name of a stage"):
            read_token(forged, "t")


@pytest.mark.long
def test_a_service_refuses_parts_without_rows_when_its_room_is_full() -> None:
    async def script(wire: Wire) -> None:
        columns = ", ".join(f"c{place} BIGINT" for place in range(100))
        await wire.create(f"CREATE STREAM s ({columns})")
        one = ipc(pa.table({"c0": pa.array([], pa.int64())}))

        async def fill(producer: str, most: int) -> int:
            begun = await wire.staging.BeginStage(staging.BeginStageRequest(stream="s", producer=producer))
            for number in range(most):
                request = staging.AddPartRequest(stage=begun.stage, part=str(number), arrow_ipc=one)
                await wire.staging.AddPart(request)
            request = staging.AddPartRequest(stage=begun.stage, part="more", arrow_ipc=one)
            full = await refused(wire.staging.AddPart(request), grpc.StatusCode.RESOURCE_EXHAUSTED)
            assert full.reason == "STAGES_FULL"
            return most

        charge = PART_BYTES + len(one)  # no columns are laid out
        first = await fill("a", (3 << 18) // charge)  # one stage holds three quarters
        assert await fill("b", (1 << 20) // charge - first)

    run(script, Settings(port=0, staged_mib=1))
