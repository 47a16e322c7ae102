"""Mutated messages: each is answered or ends its connection, and none is a defect of the service."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psoup_service.process.settings import Settings
from psoup_testing.pg.script import ScriptedSession, pg_address, scripted
from psoup_testing.pg.socket import (
    FLUSH,
    SYNC,
    TERMINATE,
    PgSocket,
    bind,
    close,
    describe,
    execute,
    message,
    parse,
    query,
    text,
)
from psoup_testing.services.threaded_service import Serving

GOOD = (
    *(query(order) for order in ("rows 3", "fail", "begin", "commit", "copy in", "copy out 2", "rows 1; rows 2")),
    *(parse(order, name, 23) for order in ("rows 5", "echo", "copy in", "") for name in ("", "s")),
    *(bind(portal, name, b"1", formats=(1,)) for portal in ("", "p") for name in ("", "s")),
    *(step(portal) for portal in ("", "p") for step in (execute, lambda name: execute(name, 2))),
    *(step(kind, name) for step in (describe, close) for kind, name in ((b"S", "s"), (b"P", "p"), (b"S", ""))),
    *(message(b"d", b"1\n"), message(b"c"), message(b"f", text("no")), message(b"F", b"1234"), FLUSH, SYNC, TERMINATE),
)

Mutation = tuple[int, int, int]


@pytest.fixture(scope="module")
def served() -> Iterator[Serving]:
    """A service whose statements are orders, and which waits only shortly for the rest of a message."""
    with scripted(Settings(port=0, pg_port=0, receive_s=1, stream_idle_s=1)) as running:
        yield running


def mutated(sent: bytes, mutations: list[Mutation]) -> bytes:
    """Replace bytes of the body, the kind, or the last byte of the length. Long lengths are waited for."""
    raw = bytearray(sent)
    for number, place, value in mutations:
        if number == 0:
            raw[place % 2 * 4] = value
        elif len(raw) > 5:
            raw[5 + place % (len(raw) - 5)] = value
    return bytes(raw)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(GOOD),
            st.lists(
                st.tuples(st.sampled_from([1, 1, 1, 1, 1, 0]), st.integers(0, 99), st.integers(0, 255)), max_size=2
            ),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_mutated_messages_are_answered_or_end_the_connection(
    served: Serving, steps: list[tuple[bytes, list[Mutation]]]
) -> None:
    defects: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: defects.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("psoup_service.pg.connection")
    logger.addHandler(handler)
    try:
        with PgSocket(pg_address(served)).start() as client:
            with suppress(OSError):  # it may end the connection at any of them
                client.send(*(mutated(sent, mutations) for sent, mutations in steps))
                client.send(message(b"f", text("end")), SYNC, TERMINATE)
                client.opened.shutdown(socket.SHUT_WR)
            assert client.ended()
        served.wait_until(lambda: not ScriptedSession.open and not served.service._answering.receiving.bytes)
    finally:
        logger.removeHandler(handler)
    assert not defects
