"""Batches in parts: nothing is seen before the commit, everything after it, each number once."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc
import pyarrow as pa

from psoup_proto.v1 import ingest_pb2 as ingest
from psoup_proto.v1 import staging_pb2 as staging
from psoup_proto.v1 import streams_pb2 as streams
from psoup_service.process.settings import Settings
from psoup_service.service import running_service
from psoup_storage import DurableStore
from psoup_testing.services.wire import Wire, ipc, refused, run

CODE = grpc.StatusCode


async def begin(wire: Wire, number: int = 0, **fields: object) -> staging.BeginStageResponse:
    given = {"stream": "s", "producer": "p", **fields}
    return await wire.staging.BeginStage(staging.BeginStageRequest(number=number, **given))


async def add(wire: Wire, stage: str, part: str, **columns: list[object]) -> staging.AddPartResponse:
    request = staging.AddPartRequest(stage=stage, part=part, arrow_ipc=ipc(pa.table(columns)))
    return await wire.staging.AddPart(request)


async def commit(wire: Wire, stage: str, *parts: str) -> ingest.PushResponse:
    return (await wire.staging.CommitStage(staging.CommitStageRequest(stage=stage, parts=parts))).outcome


async def values(wire: Wire, query: str, column: str = "x") -> list[object]:
    sequence = wire.service.host.counters()["sequence"]
    return (await wire.invoke(query, min_sequence=sequence)).to_pydict()[column]


def test_parts_become_visible_as_a_whole_in_the_order_named() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT, name TEXT)")
        query = await wire.register("SELECT x FROM s")
        stage = (await begin(wire)).stage
        await add(wire, stage, "b", x=[3, 4])
        done = await add(wire, stage, "a", x=[1, 2], name=["one", None])
        assert (done.rows, done.staged_rows) == (2, 4)
        await add(wire, stage, "b", x=[5], name=[None])  # takes the place of the first
        await add(wire, stage, "lost", x=[99])
        assert await values(wire, query) == []
        outcome = await commit(wire, stage, "b", "a")
        assert (outcome.accepted, outcome.duplicate) == (3, False)
        assert await values(wire, query) == [5, 1, 2]
        assert (await commit(wire, stage)).duplicate  # the reply was lost: the same again
        again = await begin(wire)
        assert (again.stage, again.committed) == (
            "",
            ingest.PushResponse(sequence=outcome.sequence, accepted=3, watermark=outcome.watermark, duplicate=True),
        )
        stage = (await begin(wire, 1)).stage
        await add(wire, stage, "2", x=[7])
        await add(wire, stage, "1", x=[6])
        await commit(wire, stage)
        assert await values(wire, query) == [5, 1, 2, 6, 7]

    run(script)


def test_a_committed_batch_survives_the_service_and_an_open_one_does_not(tmp_path: Path) -> None:
    async def life(script: Callable[[Wire], Awaitable[str]]) -> str:
        async with (
            running_service(Settings(port=0), store=DurableStore(tmp_path)) as service,
            grpc.aio.insecure_channel(service.address) as channel,
        ):
            return await script(Wire(service, channel))

    async def first(wire: Wire) -> str:
        await wire.create("CREATE STREAM s (x BIGINT)")
        stage = (await begin(wire)).stage
        await add(wire, stage, "a", x=[1, 2])
        await commit(wire, stage)
        stage = (await begin(wire, 1)).stage
        await add(wire, stage, "a", x=[3])
        return stage

    async def second(wire: Wire) -> str:
        assert (await begin(wire)).committed.accepted == 2
        await refused(commit(wire, left), CODE.NOT_FOUND)
        stage = (await begin(wire, 1)).stage
        await add(wire, stage, "a", x=[4])
        await commit(wire, stage)
        assert await values(wire, await wire.register("SELECT x FROM s")) == [1, 2, 4]
        return stage

    left = asyncio.run(life(first))
    asyncio.run(life(second))


def test_late_rows_are_judged_at_the_commit() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT, at TIMESTAMP) TIMESTAMP BY at")
        stage = (await begin(wire)).stage
        times = pa.array([5, 30], pa.timestamp("s", "UTC"))
        request = staging.AddPartRequest(stage=stage, part="a", arrow_ipc=ipc(pa.table({"x": [1, 2], "at": times})))
        await wire.staging.AddPart(request)
        await wire.push("s", pa.table({"x": [0], "at": pa.array([20], pa.timestamp("s", "UTC"))}))
        outcome = await commit(wire, stage)
        assert (outcome.accepted, outcome.late, outcome.watermark.seconds) == (1, 1, 30)

    run(script)


def test_what_is_refused_says_what_to_do() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT NOT NULL, at TIMESTAMP) TIMESTAMP BY at")
        assert "p" in (await refused(begin(wire, 3), CODE.FAILED_PRECONDITION)).message
        assert "producer" in (await refused(begin(wire, producer=""), CODE.INVALID_ARGUMENT)).message
        await refused(begin(wire, stream="t"), CODE.NOT_FOUND)
        stage = (await begin(wire)).stage
        wrong = await refused(add(wire, stage, "a", x=["text"]), CODE.INVALID_ARGUMENT)
        assert wrong.message.startswith("part 'a': ")
        assert wrong.facts["part"] == "a"
        null = await refused(add(wire, stage, "a", x=[1, 2], at=[None, None]), CODE.INVALID_ARGUMENT)
        assert (null.reason, null.facts["row"]) == ("NULL_TIMESTAMP", "0")
        await refused(add(wire, stage, "", x=[1]), CODE.INVALID_ARGUMENT)
        missing = await refused(commit(wire, stage, "a"), CODE.FAILED_PRECONDITION)
        assert (missing.reason, missing.facts["part"]) == ("PART_MISSING", "a")
        for token in ("", "zzz", "e30=", "WzFd", stage[:-8]):
            await refused(commit(wire, token), CODE.INVALID_ARGUMENT)
            assert (await refused(add(wire, token, "a", x=[1]), CODE.NOT_FOUND)).reason == "UNKNOWN_STAGE"

    run(script)


def test_a_newer_stage_of_the_producer_replaces_the_older_one() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        older, newer = (await begin(wire)).stage, (await begin(wire)).stage
        other = (await begin(wire, producer="q")).stage
        await refused(add(wire, older, "a", x=[1]), CODE.NOT_FOUND)
        await refused(commit(wire, older), CODE.NOT_FOUND)
        await add(wire, newer, "a", x=[2])
        await add(wire, other, "a", x=[3])
        await wire.staging.AbortStage(staging.AbortStageRequest(stage=other))
        await refused(commit(wire, other), CODE.NOT_FOUND)
        assert (await commit(wire, newer)).accepted == 1
        assert (await commit(wire, older)).duplicate  # its number is taken, whoever took it
        plain = wire.push("s", pa.table({"x": [2]}), producer="p", number=0)
        assert (await refused(plain, CODE.ABORTED)).reason == "PAYLOAD_CONFLICT"

    run(script)


def test_a_stage_ends_with_its_stream() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        stage = (await begin(wire)).stage
        await wire.streams.DropStream(streams.DropStreamRequest(name="s"))
        await refused(add(wire, stage, "a", x=[1]), CODE.NOT_FOUND)
        await wire.create("CREATE STREAM s (x BIGINT)")
        await refused(commit(wire, stage), CODE.NOT_FOUND)

    run(script)


def test_stages_share_a_budget() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        stage = (await begin(wire)).stage
        half = list(range(80_000))
        await add(wire, stage, "a", x=half)
        full = await refused(add(wire, stage, "b", x=half), CODE.RESOURCE_EXHAUSTED)
        assert (full.reason, full.facts["budget"]) == ("STAGES_FULL", "staged_bytes")
        assert full.facts["limit"] == str(3 * 2**18)
        assert "retry_after_ms" not in full.facts, "it never fits"
        other = (await begin(wire, producer="other")).stage
        full = await refused(add(wire, other, "b", x=half), CODE.RESOURCE_EXHAUSTED)
        assert "retry_after_ms" in full.facts, "it fits when the first is committed"
        await add(wire, stage, "a", x=half)  # in place of itself it fits
        assert (await commit(wire, stage)).accepted == 80_000
        stage = (await begin(wire, 1)).stage
        await add(wire, stage, "b", x=half)

    run(script, Settings(port=0, staged_mib=1))


def test_an_empty_batch_uses_its_number_up() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT NOT NULL)")
        stage = (await begin(wire)).stage
        assert (await commit(wire, stage)).accepted == 0
        assert (await begin(wire)).committed.duplicate
        assert (await begin(wire, 1)).stage

    run(script)


def test_parts_come_at_once_from_many_sides() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        query = await wire.register("SELECT x FROM s")
        stage = (await begin(wire)).stage
        await asyncio.gather(*(add(wire, stage, f"{n:02d}", x=[n] * 5_000) for n in range(20)))
        outcomes = await asyncio.gather(*(commit(wire, stage) for _ in range(4)), return_exceptions=True)
        taken = [o for o in outcomes if isinstance(o, ingest.PushResponse)]
        assert taken and {o.accepted for o in taken} == {100_000}
        assert sum(not o.duplicate for o in taken) == 1
        found = await values(wire, query)
        assert found == [n for n in range(20) for _ in range(5_000)]

    run(script)


def test_a_stage_of_a_table_upserts_and_deletes() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE TABLE t (x BIGINT, name TEXT NOT NULL, PRIMARY KEY (x))")
        query = await wire.register("SELECT x, name FROM t")
        stage = (await begin(wire, stream="t")).stage
        await add(wire, stage, "a", x=[1, 2], name=["one", "two"])
        await add(wire, stage, "b", x=[1, 3], name=[None, "three"], _deleted=[True, None])
        assert (await commit(wire, stage)).accepted == 4
        assert sorted(await values(wire, query, "name")) == ["three", "two"]

    run(script)
