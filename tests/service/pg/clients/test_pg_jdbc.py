"""A conversation of PostgreSQL's JDBC driver: the port answers each message as PostgreSQL 15 did.

`tests/fixtures/pg-jdbc.jsonl` was recorded between the driver 42.5.5 and PostgreSQL 15, over tables with the same rows.
A line has bytes of the driver, and the messages that came back, each with its kind. Bytes are written as Latin-1.

The driver prepares statements by name, and fetches rows by portals within transactions. It sends batches, dates with a
zone, arrays and COPY. It sets a savepoint, and reads the catalogue.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from psoup_testing.pg.script import pg_address
from psoup_testing.pg.socket import PgSocket, fields
from psoup_testing.pg.trades import fill
from psoup_testing.services.threaded_service import Serving

_FIXTURE = Path(__file__).parents[3] / "fixtures" / "pg-jdbc.jsonl"
_BESIDE = (b"N", b"S", b"K")
"""Notices, settings and keys: PSoup has its own. It finds a wrong column at Describe, and PostgreSQL at Parse."""


@pytest.fixture(scope="module")
def socket(running: Serving) -> Iterator[PgSocket]:
    """A connection to a service with the rows of the recorded tables."""
    fill(running)
    with PgSocket(pg_address(running)) as opened:
        yield opened


def comparable(kind: bytes, body: bytes) -> tuple[bytes, Any]:
    """The parts of a message that PostgreSQL and PSoup share: an error's SQLSTATE, columns without their tables."""
    if kind == b"E":
        return kind, fields(body)["C"]
    if kind != b"T":
        return kind, body
    columns, at = list[Any](), 2
    for _ in range(struct.unpack("!h", body[:2])[0]):
        end = body.index(b"\0", at)
        columns.append((body[at:end].decode(), struct.unpack("!ihih", body[end + 7 : end + 19])))
        at = end + 19
    return kind, columns


def test_the_port_answers_the_driver_as_postgresql_did(socket: PgSocket) -> None:
    for number, line in enumerate(_FIXTURE.read_text(encoding="utf-8").splitlines(), 1):
        turn = json.loads(line)
        socket.send(turn["client"].encode("latin-1"))
        said = [(kind.encode(), body.encode("latin-1")) for kind, body in turn["server"]]
        for wanted in [comparable(*message) for message in said if message[0] not in _BESIDE]:
            beside = (*_BESIDE, b"1", b"2") if wanted[0] == b"E" else _BESIDE
            message = socket.read()
            while message[0] in beside:
                message = socket.read()
            error = fields(message[1]) if message[0] == b"E" else ""
            assert comparable(*message) == wanted, f"line {number}: {turn['client'][:200]!r} {error}"
    assert socket.read() == (b"", b""), "the driver has said goodbye"
