"""The service as a process: what it says, its health, its metrics, its logs, and how it ends."""

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pyarrow as pa
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from psoup.errors import Internal, InvalidInput
from psoup_client import Client
from psoup_proto.v1 import queries_pb2 as queries
from psoup_proto.v1 import server_pb2, server_pb2_grpc
from psoup_service.process.settings import Settings
from psoup_service.service import running_service
from psoup_testing.services.wire import Wire, refused, run

SERVE = [sys.executable, "-m", "psoup_service.main"]


@contextmanager
def process(**settings: str) -> Iterator[tuple[subprocess.Popen[str], str, list[str]]]:
    """A service, its address, and the lines it has written; killed if it is still there at the end."""
    environ = {"PSOUP_PORT": "0", "PSOUP_METRICS_PORT": "0", "PSOUP_LOG_FORMAT": "json"}
    environ |= {"PSOUP_DATA_DIR": ":memory:", **settings}
    lines: list[str] = []
    listening = threading.Event()

    def collect() -> None:
        assert child.stderr is not None
        for line in child.stderr:
            lines.append(line.rstrip())
            if "nothing survives" in line or "data is kept" in line:
                listening.set()
        listening.set()

    child = subprocess.Popen(SERVE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environ})
    reader = threading.Thread(target=collect)
    reader.start()
    try:
        assert listening.wait(120)
        address = re.search(r"listens on (\S+)", "\n".join(lines))
        assert address, lines
        yield child, address[1], lines
    finally:
        child.kill()
        child.wait()
        reader.join()


@pytest.mark.long
def test_a_signal_drains_and_ends_well(tmp_path: Path) -> None:
    """Its log also says which settings file was read."""
    file, data = tmp_path / "some.toml", tmp_path / "data"
    file.write_text("[service]\nreaders = 3\n")
    with process(PSOUP_DATA_DIR=str(data), PSOUP_CONFIG=str(file)) as (child, address, lines):
        with grpc.insecure_channel(address) as channel:
            info = server_pb2_grpc.ServerServiceStub(channel).GetServerInfo(server_pb2.GetServerInfoRequest())
            assert info.state == "serving"
        child.send_signal(signal.SIGTERM)
        assert child.wait(60) == 0
    assert any(f"data is kept in {data}" in line for line in lines)
    logged = [json.loads(line) for line in lines if line.startswith("{")]
    assert any(entry["event"] == "draining" for entry in logged)
    assert [entry["file"] for entry in logged if entry["event"] == "settings were read" and "file" in entry] == [
        str(file)
    ]


@pytest.mark.long
def test_an_unknown_setting_of_a_file_ends_it_at_once(tmp_path: Path) -> None:
    file = tmp_path / "some.toml"
    file.write_text("[service]\nprt = 1\n")
    done = subprocess.run(
        SERVE, capture_output=True, text=True, env={**os.environ, "PSOUP_CONFIG": str(file)}, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "did you mean 'port'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_an_unknown_variable_is_told_and_ends_nothing() -> None:
    with process(PSOUP_PRT="1") as (child, _, lines):
        child.send_signal(signal.SIGTERM)
        assert child.wait(60) == 0
    assert [line for line in lines if "PSOUP_PRT" in line] == [
        "warning: the variable PSOUP_PRT is not a setting of the service, and is ignored; did you mean PSOUP_PORT?"
    ]


_STARTS = """
import json, os, sys
from psoup_service.main import main
for settings in map(json.loads, sys.argv[1:]):
    os.environ.update(settings)
    print(f"ended with {main()}", file=sys.stderr)
"""


def started(*settings: dict[str, str]) -> list[tuple[int, list[str]]]:
    """What services that do not start say, one after the other in a process, and the codes with which they end."""
    environ = {**os.environ, "PSOUP_PORT": "0", "PSOUP_LOG_LEVEL": "error"}
    command = [sys.executable, "-c", _STARTS, *map(json.dumps, settings)]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=120, check=True)
    *starts, end = re.split(r"ended with (\d+)\n", done.stderr)
    assert end == ""
    return [(int(code), said.splitlines()) for said, code in zip(starts[::2], starts[1::2], strict=True)]


@pytest.mark.long
def test_a_start_that_fails_is_told_once_and_in_words(killed_directory: Path, tmp_path: Path) -> None:
    """A flipped bit in a chunk, a port that is taken, a data directory that is a file: one line each, no traceback."""
    shutil.copytree(killed_directory / "data", tmp_path / "data")
    chunk = tmp_path / "data" / "chunks" / "1-0.parquet"
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(content)
    (tmp_path / "file").write_text("")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        damaged, no_port, no_folder = started(
            {"PSOUP_DATA_DIR": str(tmp_path / "data")},
            {"PSOUP_DATA_DIR": ":memory:", "PSOUP_METRICS_PORT": port},
            {"PSOUP_DATA_DIR": str(tmp_path / "file")},
        )
    assert [(code, len(said)) for code, said in (damaged, no_port, no_folder)] == [(1, 1)] * 3, (damaged, no_port)
    told = damaged[1][0]
    assert told.startswith("error: the chunk ")
    assert told.count("is damaged") == 1
    assert "is damaged: its checksum is wrong: some of its bytes have changed; psoup doctor says" in told
    assert port in no_port[1][0]
    assert str(tmp_path / "file") in no_folder[1][0]


def test_a_port_that_is_taken_says_so() -> None:
    before = set(threading.enumerate())

    async def main() -> None:
        async with running_service() as service:
            port = int(service.address.rpartition(":")[2])
            with pytest.raises(InvalidInput, match="another service"):
                async with running_service(Settings(port=port)):
                    pass
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            with pytest.raises(InvalidInput, match="metrics"):
                async with running_service(Settings(port=0, metrics_port=taken.getsockname()[1])):
                    pass

    asyncio.run(main())
    assert not [t for t in set(threading.enumerate()) - before if t.name.startswith("psoup-")]


def test_health_reflection_and_metrics() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        query = await wire.register("SELECT x FROM s WHERE x > 1")
        done = await wire.push("s", pa.table({"x": [1, 2, 3]}))
        await wire.invoke(query, min_sequence=done.sequence)
        bad = wire.queries.Invoke(queries.InvokeRequest(query_id="x"))
        await refused(bad, grpc.StatusCode.INVALID_ARGUMENT)

        health = health_pb2_grpc.HealthStub(wire.channel)
        for name in ("", "psoup.v1.QueryService", "psoup.v1.IngestService"):
            status = await health.Check(health_pb2.HealthCheckRequest(service=name))
            assert status.status == health_pb2.HealthCheckResponse.SERVING
        nope = health.Check(health_pb2.HealthCheckRequest(service="nope"))
        await refused(nope, grpc.StatusCode.NOT_FOUND)

        ask = reflection_pb2.ServerReflectionRequest(list_services="")
        call = reflection_pb2_grpc.ServerReflectionStub(wire.channel).ServerReflectionInfo(iter([ask]))
        listed = {one.name for one in (await call.read()).list_services_response.service}
        call.cancel()
        assert {"psoup.v1.StreamService", "psoup.v1.ServerService", "grpc.health.v1.Health"} <= listed

        url = f"http://{wire.service.metrics_address}/metrics"
        text = await asyncio.to_thread(lambda: urllib.request.urlopen(url).read().decode())
        figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        assert float(figures["psoup_pushed_tuples_total"]) == 3
        assert float(figures["psoup_answered_rows_total"]) == 2
        assert float(figures["psoup_queries"]) == 1
        assert (
            float(figures['psoup_calls_total{code="INVALID_ARGUMENT",method="QueryService/Invoke",protocol="grpc"}'])
            == 1
        )
        assert float(figures['psoup_call_seconds_count{method="IngestService/Push",protocol="grpc"}']) == 1

    run(script, Settings(port=0, metrics_port=0))


def test_a_host_that_fails_is_not_serving() -> None:
    async def main() -> None:
        async with running_service() as service, grpc.aio.insecure_channel(service.address) as channel:
            wire = Wire(service, channel)
            await wire.create("CREATE STREAM s (x BIGINT)")
            service.host._engine.apply = None  # a defect: the writer cannot apply any more
            await wire.push("s", pa.table({"x": [1]}))
            await service.ended()
            health = health_pb2_grpc.HealthStub(channel)
            watch = health.Watch(health_pb2.HealthCheckRequest())
            while (await watch.read()).status != health_pb2.HealthCheckResponse.NOT_SERVING:
                pass
            watch.cancel()
            await refused(wire.push("s", pa.table({"x": [1]})), grpc.StatusCode.INTERNAL)
            query = wire.queries.ListQueries(queries.ListQueriesRequest())
            assert not (await query).queries

    with pytest.raises(Internal, match="the host failed"):
        asyncio.run(main())


@pytest.mark.long
def test_without_a_reader_of_its_log(tmp_path: Path) -> None:
    """It serves and ends, though what started it has left before its first line."""
    reader, writer = os.pipe()
    os.close(reader)
    settings = {"PSOUP_SOCKET": str(tmp_path / "s"), "PSOUP_METRICS_PORT": "-1", "PSOUP_DATA_DIR": ":memory:"}
    child = subprocess.Popen(SERVE, stderr=writer, env={**os.environ, **settings})
    os.close(writer)
    try:
        with Client(f"unix:{tmp_path / 's'}") as client:
            client.wait_ready(60)
        child.send_signal(signal.SIGINT)
        assert child.wait(30) == 0
    finally:
        child.kill()
        child.wait()
