"""Metrics of connections of PostgreSQL's clients: open ones by state, and refused ones by reason."""

from __future__ import annotations

import socket
import ssl
import struct
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from psoup.errors import InvalidInput, PermissionDenied, PSoupError, Unauthenticated, Unavailable
from psoup_service.figures.pg_connections import REASONS
from psoup_service.pg.startup import reason_of_refusal
from psoup_service.process.settings import Settings
from psoup_testing.pg.script import pg_address, scripted
from psoup_testing.pg.socket import PgSocket, packet, query, startup
from psoup_testing.services.threaded_service import Serving


def figures(running: Serving, name: str) -> dict[str, int]:
    """The rows of a metric by their label, without zeros."""
    with urlopen(f"http://{running.service.metrics_address}/metrics", timeout=60) as reply:
        families = text_string_to_metric_families(reply.read().decode())
    family = next(family for family in families if family.name == name)
    rows = {next(iter(sample.labels.values())): int(sample.value) for sample in family.samples}
    return {label: value for label, value in rows.items() if value}


@pytest.mark.long
def test_connections_are_counted_by_state_and_refusals_by_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(Settings(port=0, pg_port=0, metrics_port=0, receive_s=0.3)) as running:
        address = pg_address(running)
        assert figures(running, "psoup_pg_connections") == {}
        with (
            PgSocket(address).start() as idle,
            PgSocket(address).start() as within,
            PgSocket(address).start() as active,
        ):
            within.send(query("begin"))
            assert within.kinds() == "CZ"
            active.send(query("wait"))
            with PgSocket(address).start() as left:
                left.opened.shutdown(socket.SHUT_WR)
                assert left.ended()
            expected = {"idle": 1, "idle in transaction": 1, "active": 1}
            assert figures(running, "psoup_pg_connections") == expected
            with PgSocket(address) as wrong:
                wrong.send(packet(struct.pack("!i", 2 << 16) + b"\0" * 300))
                assert wrong.error()["C"] == "08P01"
            with PgSocket(address) as late:
                assert late.ended()
            assert running.service.pg is not None
            monkeypatch.setattr(running.service.pg, "_most", 3)
            with PgSocket(address) as many:
                many.send(startup(user="x"))
                assert many.error()["C"] == "53300"
            assert figures(running, "psoup_pg_refused_connections") == {"protocol": 1, "late": 1, "limit": 1}
            idle.send(query("rows 1"))
            assert idle.kinds() == "TDCZ"


@pytest.mark.parametrize(
    ("problem", "why"),
    [
        (Unauthenticated("wrong", reason="TOKEN_INVALID"), "credential"),
        (PermissionDenied("plain", reason="TLS_NEEDED"), "tls"),
        (ssl.SSLError("handshake"), "tls"),
        (Unavailable("ends", reason="DRAINING"), "stopping"),
        (InvalidInput("no setting", reason="UNKNOWN_SETTING"), "other"),
        (ConnectionResetError(), ""),
    ],
)
def test_each_refusal_has_a_reason_that_metrics_know(problem: PSoupError | OSError, why: str) -> None:
    assert reason_of_refusal(problem) == why
    assert why in ("", *REASONS)
