"""Probes over HTTP: a service that starts is alive and not ready; one that has failed is neither."""

from __future__ import annotations

import asyncio
import re
import select
import threading
import urllib.error
import urllib.request
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from psoup.work.clock import VirtualClock
from psoup_client import Client
from psoup_service.figures.metrics import FIGURES, Metrics
from psoup_service.figures.probes import MOST, Probes
from psoup_service.process.settings import Settings
from psoup_service.service import Service, running_service
from psoup_service.web import gateway
from psoup_storage import DurableStore
from psoup_testing.http2.hostile_connections import connected


def _get(port: int, path: str, host: str = "127.0.0.1") -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=60) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as problem:
        with problem:
            return problem.code, problem.read().decode()


@pytest.mark.parametrize(
    ("state", "failure", "alive", "ready"),
    [
        ("starting", "", 200, 503),
        ("serving", "", 200, 200),
        ("draining", "", 200, 503),
        ("stopped", "", 200, 503),
        ("failed", "the disk is full", 503, 503),
    ],
)
def test_what_each_state_means(state: str, failure: str, alive: int, ready: int) -> None:
    probes = Probes(Metrics(), lambda: (state, failure), "127.0.0.1", 0)
    try:
        said = f"{state}: {failure}\n" if failure else f"{state}\n"
        assert _get(probes.port, "/healthz") == (alive, said)
        assert _get(probes.port, "/readyz") == (ready, said)
        assert _get(probes.port, "/metric") == (404, "here are /metrics, /healthz and /readyz\n")
    finally:
        probes.close()


def test_it_listens_on_ipv6() -> None:
    probes = Probes(Metrics(), lambda: ("serving", ""), "::1", 0)
    try:
        assert _get(probes.port, "/readyz", "[::1]") == (200, "serving\n")
    finally:
        probes.close()


@pytest.mark.seeded("F20: each connection to the metrics takes a thread")
@pytest.mark.seeded("connections to the metrics take any number of threads")
def test_connections_that_ask_nothing_take_so_many_threads_and_no_more() -> None:
    before = set(threading.enumerate())  # a request to the probes of another test may still be under way
    probes = Probes(Metrics(), lambda: ("serving", ""), "127.0.0.1", 0)
    try:
        with ExitStack() as held:
            silent = [held.enter_context(connected(f"127.0.0.1:{probes.port}")) for _ in range(MOST + 20)]
            closed, waited = 0, threading.Event()
            for _ in range(1_200):
                closed = len(select.select(silent, [], [], 0)[0])
                if closed == 20 or waited.wait(0.05):
                    break
            assert closed == 20
            assert len(_answering() - before) <= MOST
        for thread in _answering() - before:
            thread.join(60)
        assert _get(probes.port, "/readyz") == (200, "serving\n")
    finally:
        probes.close()


def _answering() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if "process_request_thread" in thread.name}


def _fill_table(address: str) -> None:
    with Client(address) as client:
        client.execute("CREATE TABLE Ads (id BIGINT PRIMARY KEY)")
        client.push("ads", {"id": [1, 2]})
        client.wait_for(client.delete("ads", {"id": [2]}).sequence)


def _feed_stream(address: str, watermark: datetime) -> None:
    with Client(address) as client:
        client.execute("CREATE STREAM ticks (t TIMESTAMP) TIMESTAMP BY t")
        client.wait_for(client.push("ticks", {"t": [watermark]}).sequence)


def test_each_stage_of_a_command_has_a_histogram(tmp_path: Path) -> None:
    async def main() -> dict[str, float]:
        at = datetime(2026, 1, 1)
        clock = VirtualClock(round(at.replace(tzinfo=UTC).timestamp() * 1_000_000))
        settings, store = Settings(port=0, metrics_port=0), DurableStore(tmp_path / "data")
        async with running_service(settings, clock=clock, store=store) as service:
            await asyncio.to_thread(_feed_stream, service.address, at - timedelta(seconds=90))
            text = (await asyncio.to_thread(_get, int(service.metrics_address.rpartition(":")[2]), "/metrics"))[1]
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        assert {"tenant": "default", "stream": "ticks"} in [s.labels for s in samples]
        return {sample.name: sample.value for sample in samples}

    values = asyncio.run(main())
    assert values["psoup_command_wait_seconds_count"] == 2
    for stage in ("log_sync", "apply"):
        assert 1 <= values[f"psoup_{stage}_seconds_count"] <= 2
        assert 0 < values[f"psoup_{stage}_seconds_sum"] < 30
    assert values["psoup_freshness_seconds"] == 90
    assert values["psoup_wal_bytes"] > 0
    assert values["psoup_short_of_disk"] == 0


def test_a_service_is_ready_once_its_page_can_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    class Page(gateway.Gateway):
        async def start(self, *place: Any) -> None:
            port = int(made[0].metrics_address.rpartition(":")[2])
            early.append(await asyncio.to_thread(_get, port, "/readyz"))
            await super().start(*place)

    def opened(service: Service) -> None:
        start(service)
        made.append(service)

    made, early, start = list[Service](), list[tuple[int, str]](), Service._start_probes
    monkeypatch.setattr(Service, "_start_probes", opened)

    async def main() -> tuple[int, str]:
        async with running_service(Settings(port=0, metrics_port=0, web_port=0)) as service:
            return await asyncio.to_thread(_get, int(service.metrics_address.rpartition(":")[2]), "/readyz")

    monkeypatch.setattr(gateway, "Gateway", Page)
    assert asyncio.run(main()) == (200, "serving\n")
    assert early == [(503, "starting\n")]


def test_every_figure_says_what_it_means() -> None:
    async def main() -> str:
        async with running_service(Settings(port=0, metrics_port=0)) as service:
            assert service._figures().keys() == FIGURES.keys()
            port = int(service.metrics_address.rpartition(":")[2])
            assert await asyncio.to_thread(_get, port, "/readyz") == (200, "serving\n")
            await asyncio.to_thread(_fill_table, service.address)
            return (await asyncio.to_thread(_get, port, "/metrics"))[1]

    text = asyncio.run(main())
    for line in ('keys{table="Ads",tenant="default"} 1.0', 'entries{table="Ads",tenant="default"} 3.0'):
        assert f"psoup_table_{line}" in text
    families = list(text_string_to_metric_families(text))
    assert len(families) > len(FIGURES)
    for family in families:
        words = re.sub(r"^psoup_|_(total|created)$", "", family.name).replace("_", " ")
        assert family.documentation.lower() != words or words == "streams", family.name
        assert not family.documentation.endswith("now"), family.name
