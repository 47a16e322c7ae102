"""A check that fails in a running service: it stops, says what is broken and what to do, and loses nothing."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import grpc
import pyarrow as pa
import pytest

from psoup.clauses.table import SlotTable
from psoup.errors import Internal, InvalidInput
from psoup_proto.v1 import queries_pb2 as queries
from psoup_service import main as service_main
from psoup_service.process.settings import Settings
from psoup_service.process.settings_sources import load
from psoup_service.service import Service, running_service
from psoup_storage import DurableStore
from psoup_testing.services.wire import Wire, refused


def test_the_setting_is_read_where_the_service_is_composed() -> None:
    assert load(environ={}).settings.verify == "cheap"
    loaded = load(environ={"PSOUP_VERIFY": "all"})
    assert {one.name: one.origin for one in loaded.show()}["verify"] == "PSOUP_VERIFY"
    assert Service(loaded.settings).host._engine._verification.level == "all"  # type: ignore[attr-defined]
    with pytest.raises(InvalidInput, match="verify = 'some'"):
        load(environ={"PSOUP_VERIFY": "some"})


async def life_after(path: Path) -> list[dict[str, int]]:
    """What the only query that stands answers after a start, with all checks on."""
    async with (
        running_service(Settings(port=0, verify="all"), store=DurableStore(path)) as service,
        grpc.aio.insecure_channel(service.address) as channel,
    ):
        wire = Wire(service, channel)
        (query,) = (await wire.queries.ListQueries(queries.ListQueriesRequest())).queries
        rows: list[dict[str, int]] = (await wire.invoke(query.query_id)).to_pylist()
        return rows


def test_a_broken_structure_stops_the_service_and_the_next_start_has_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def life() -> None:
        async with (
            running_service(Settings(port=0), store=DurableStore(tmp_path)) as service,
            grpc.aio.insecure_channel(service.address) as channel,
        ):
            wire = Wire(service, channel)
            await wire.create("CREATE STREAM s (x BIGINT)")
            gone = await wire.register("SELECT x FROM s WHERE x > 5")
            kept = await wire.register("SELECT x FROM s WHERE x > 0")
            done = await wire.push("s", pa.table({"x": [1, 9]}))
            with monkeypatch.context() as patch:
                patch.setattr(SlotTable, "release", lambda *_: None)
                await wire.queries.Unregister(queries.UnregisterRequest(query_id=gone))
                await service.ended()
            await refused(wire.push("s", pa.table({"x": [3]})), grpc.StatusCode.INTERNAL)
            answer = await wire.invoke(kept, min_sequence=done.sequence)  # what was published before stays readable
            assert answer.to_pylist() == [{"x": 1}, {"x": 9}]

    caplog.set_level(logging.CRITICAL)
    with pytest.raises(Internal, match="ClauseTable: names, slots and IDs are not of the same clauses") as raised:
        asyncio.run(life())
    said = str(raised.value)
    assert "counts=[1, 2, 1]" in said
    assert "the last events: 1 StreamCreated on stream 1, " in said
    assert said.index("Unregistered of query") < said.index("start the service again")
    assert "psoup doctor" in said
    assert "PSOUP_VERIFY=off" in said
    assert any("ClauseTable" in record.getMessage() for record in caplog.records)
    assert asyncio.run(life_after(tmp_path)) == [{"x": 1}, {"x": 9}]


def test_a_start_that_finds_a_broken_structure_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def write() -> None:
        async with (
            running_service(Settings(port=0), store=DurableStore(tmp_path)) as service,
            grpc.aio.insecure_channel(service.address) as channel,
        ):
            await Wire(service, channel).create("CREATE STREAM s (x BIGINT)")

    asyncio.run(write())
    monkeypatch.setattr("psoup.engine.verification.check_counts", _always_wrong)
    assert service_main.serve(Settings(port=0, data_dir=str(tmp_path))) == service_main.EXIT_FAILED
    said = capfd.readouterr().err
    assert (
        "error: a structure: is broken; the last events: 1 StreamCreated on stream 1; nothing that is on disk" in said
    )


def _always_wrong(state: object) -> None:
    from psoup.invariants import corrupt

    raise corrupt("a structure", "is broken")
