"""Hostile connections in plain HTTP/2, each bounded, and what a neighbour notices of them.

with Victim(address) as victim:              a client that pushes and invokes without a pause, and is refused nothing
    flood(address, ping_flood(), frames=20_000)      one connection: the opening, then a unit again and again
victim.calls                                 how many calls it made meanwhile

A flood ends after its frames, after its seconds, or when the service closes the connection, whichever comes first.
"""

from __future__ import annotations

import random
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count, islice
from typing import NamedTuple

import pyarrow as pa

from benchmarks.attacks.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME_BYTES,
    HEADERS,
    INITIAL_WINDOW,
    PING,
    PREFACE,
    RESET,
    SETTINGS,
    WINDOW_UPDATE,
    Frames,
    data,
    frame,
    headers,
    message,
    request,
    settings,
)
from psoup_client import Client, ClientOptions, Query, RetryOptions

ONCE = ClientOptions(retry=RetryOptions(attempts=1, restart_seconds=0))
"""Options of a client that shows every refusal."""

PAUSE_S = 0.005
"""Of a neighbour between two rounds."""

_NUMBERS = count()
_PIECE = 64
"""Units that are sent at once."""


class Flood(NamedTuple):
    """The content of a flood: `opening` once, then `units`. `reads`: whether the replies are read."""

    opening: bytes
    units: Iterator[bytes]
    reads: bool = True


class Sent(NamedTuple):
    """The outcome of a flood: sent units, and whether the service closed the connection."""

    units: int
    closed: bool


def flood(address: str, attack: Flood, units: int, seconds: float = 2.0) -> Sent:
    """Send at most so many units in at most so many seconds, then close."""
    ends, sent = time.monotonic() + seconds, 0
    with connected(address) as line:
        try:
            line.sendall(PREFACE + attack.opening)
            line.setblocking(False)
            while sent < units and time.monotonic() < ends:
                piece = list(islice(attack.units, min(_PIECE, units - sent)))
                if not piece:
                    break
                _send(line, b"".join(piece), ends, attack.reads)
                sent += len(piece)
            return Sent(sent, closed=attack.reads and wait_closed(line, 0.2))
        except TimeoutError:
            return Sent(sent, closed=False)
        except OSError:
            return Sent(sent, closed=True)


def connected(address: str) -> socket.socket:
    """A connection that has said nothing."""
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), 10)


def wait_closed(line: socket.socket, seconds: float) -> bool:
    """Whether the service closes the connection within so many seconds; what it sends until then is read."""
    ends = time.monotonic() + seconds
    try:
        while (left := ends - time.monotonic()) > 0:
            line.settimeout(left)
            if not line.recv(65_536):
                return True
    except TimeoutError:
        return False
    except OSError:
        return True
    return False


def received(line: socket.socket, seconds: float) -> Iterator[tuple[int, int, int, bytes]]:
    """The frames that come within so many seconds, as `Frames.take` gives them."""
    ends, frames = time.monotonic() + seconds, Frames()
    with suppress(TimeoutError):
        while (room := ends - time.monotonic()) > 0:
            line.settimeout(room)
            piece = line.recv(65_536)
            if not piece:
                return
            yield from frames.take(piece)


def reached(line: socket.socket, seconds: float) -> bool:
    """Whether all that was sent has been received: a ping is answered in its order."""
    mark = b"reached?"
    line.sendall(frame(PING, 0, 0, mark))
    return any(kind == PING and payload == mark for kind, _, _, payload in received(line, seconds))


def endings(line: socket.socket, streams: set[int], seconds: float) -> dict[int, int]:
    """Of these calls the kind of frame that ended each: HEADERS with a status, or RESET; without those that go on."""
    ended_by: dict[int, int] = {}
    for kind, flags, stream, _ in received(line, seconds):
        if stream in streams and (kind == RESET or (kind == HEADERS and flags & END_STREAM)):
            ended_by.setdefault(stream, kind)
            if len(ended_by) == len(streams):
                break
    return ended_by


def ended(line: socket.socket, streams: set[int], seconds: float) -> bool:
    """Whether the service ends all these calls within so many seconds."""
    return endings(line, streams, seconds).keys() == streams


def trickled(line: socket.socket, rest: bytes, seconds: float) -> bool:
    """Whether the service closes a connection within so many seconds that sends a byte ten times a second."""
    ends = time.monotonic() + seconds
    try:
        for byte in rest:
            if time.monotonic() > ends:
                return False
            line.sendall(bytes([byte]))
            if wait_closed(line, 0.1):
                return True
    except OSError:
        return True
    return wait_closed(line, max(0.0, ends - time.monotonic()))


def _send(line: socket.socket, rest: bytes, ends: float, reads: bool) -> None:
    """Send all of it; raises TimeoutError at the end of the time, and OSError if the service has closed."""
    while rest:
        readable, writable, _ = select.select([line] if reads else [], [line], [], 0.05)
        if readable and not line.recv(262_144):
            raise ConnectionResetError
        if writable:
            rest = rest[line.send(rest) :]
        if rest and time.monotonic() >= ends:
            raise TimeoutError


def rapid_reset(address: str) -> Flood:
    """Calls that are taken back as soon as they have begun."""
    block = request("ServerService/GetServerInfo", address)
    body = message(b"")
    take_back = struct.pack(">I", 8)  # CANCEL

    def units() -> Iterator[bytes]:
        for stream in count(1, 2):
            yield headers(stream, block) + data(stream, body) + frame(RESET, 0, stream, take_back)

    return Flood(settings(), units())


def endless_headers(address: str) -> Flood:
    """A header block that never ends."""
    opening = settings() + headers(1, request("ServerService/GetServerInfo", address), flags=0)
    field = b"\0\x08" + b"x" * 8 + b"\x7f\x00" + b"y" * 127
    unit = frame(CONTINUATION, 0, 1, field * 100)
    return Flood(opening, _again(unit))


def empty_headers(address: str) -> Flood:
    """The same in frames without a byte, which no size limits."""
    opening = settings() + headers(1, request("ServerService/GetServerInfo", address), flags=0)
    return Flood(opening, _again(frame(CONTINUATION, 0, 1)))


def no_window(address: str, method: str, body: bytes) -> Flood:
    """Calls whose replies have no room to be sent."""
    block = request(method, address)
    units = (headers(stream, block) + data(stream, message(body)) for stream in count(1, 2))
    return Flood(settings((INITIAL_WINDOW, 0)), units)


def pings() -> Flood:
    """Pings whose answers are not read."""
    return Flood(settings(), _again(frame(PING, 0, 0, b"12345678")), reads=False)


def many_settings() -> Flood:
    """Settings, each to be acknowledged, and no acknowledgement is read."""
    units = (settings((INITIAL_WINDOW, 65_535 + number % 2)) for number in count())
    return Flood(settings(), units, reads=False)


def empty_frames(address: str) -> Flood:
    """A call whose message comes in frames without a byte."""
    opening = settings() + headers(1, request("IngestService/Push", address))
    return Flood(opening, _again(frame(DATA, 0, 1)))


def garbage(seed: int, address: str) -> list[bytes]:
    """Beginnings of connections that no client has: wrong from the first byte, or from some frame on."""
    draw = random.Random(seed)
    block = request("ServerService/GetServerInfo", address)
    begun = PREFACE + settings()
    wrong = [
        draw.randbytes(2_000),
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00" + draw.randbytes(505),  # TLS, where there is none
        PREFACE[:10] + draw.randbytes(50),
        PREFACE + frame(DATA, 0, 0, b"before settings"),
        begun + draw.randbytes(2_000),
        begun + frame(DATA, 0, 0, b"of no stream"),
        begun + frame(DATA, END_STREAM, 7, b"of a stream that has not begun"),
        begun + headers(2, block),
        begun + headers(0, block),
        begun + headers(1, b"\xff" * 64),  # an index beyond every table
        begun + headers(1, b"\x3f" + b"\xff" * 40),  # an integer without an end
        begun + headers(1, b"\0\x7f\xff\xff\xff\x0f"),  # a name of 2^28 bytes
        begun + headers(1, block[:-5]),
        begun + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 0x7FFFFFFF)) * 3,
        begun + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 0)),
        begun + frame(SETTINGS, 0, 0, b"12345"),
        begun + settings((INITIAL_WINDOW, 0xFFFFFFFF)),
        begun + settings((5, 1)),  # a largest frame below the least
        begun + frame(PING, 0, 0, b"short"),
        begun + frame(RESET, 0, 9, b"1234"),
        begun + b"\xff\xff\xff" + bytes([HEADERS, END_HEADERS]) + struct.pack(">I", 1),  # 16 MiB follow
        begun + frame(CONTINUATION, END_HEADERS, 1, block),
        begun + headers(1, block, flags=0) + frame(PING, 0, 0, b"12345678"),
        begun + headers(1, block) + data(1, b"\x07" + b"\xff" * 100),  # compressed by nothing known
        begun + headers(1, block) + data(1, message(b"\xff" * 50)),
        begun + headers(1, block) * 3,
        begun + frame(draw.randrange(10, 256), 255, draw.randrange(1 << 31), draw.randbytes(100)) * 20,
    ]
    for _ in range(20):  # a call with some bytes changed
        whole = bytearray(begun + headers(1, block) + data(1, message(b"")))
        for _ in range(draw.randrange(1, 6)):
            whole[draw.randrange(len(PREFACE), len(whole))] = draw.randrange(256)
        wrong.append(bytes(whole) + bytes(FRAME_BYTES))
    return wrong


def _again(unit: bytes) -> Iterator[bytes]:
    while True:
        yield unit


class Victim:
    """A neighbour: a push, and an invocation that shows all that was pushed, one after the other in a thread."""

    def __init__(self, address: str) -> None:
        self._client = Client(address, timeout=60, options=ONCE)
        self._stream = f"victim{next(_NUMBERS)}"
        self._client.create_stream(f"CREATE STREAM {self._stream} (a BIGINT) RETENTION 100 ROWS")
        self._query: Query = self._client.register(f"SELECT a FROM {self._stream} BEGIN (NOW - 100 ROWS)")
        self._stop, self._more = threading.Event(), threading.Condition()
        self._problem: BaseException | None = None
        self.calls = 0
        self._thread = threading.Thread(target=self._live)

    def __enter__(self) -> Victim:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._client.close()
        if self._problem is not None:
            raise self._problem
        assert self.calls > 0

    def served(self, more: int, seconds: float = 30.0) -> bool:
        """Whether it is served so many more times."""
        with self._more:
            wanted = self.calls + more
            return self._more.wait_for(lambda: self.calls >= wanted or self._problem is not None, seconds)

    def _live(self) -> None:
        try:
            for number in count():
                if self._stop.wait(PAUSE_S):
                    return
                self._client.push(self._stream, pa.table({"a": [number]}))
                newest = self._query.invoke().to_arrow()["a"].to_pylist()
                assert newest[-1] == number, newest
                with self._more:
                    self.calls += 1
                    self._more.notify_all()
        except BaseException as problem:
            self._problem = problem
            with self._more:
                self._more.notify_all()
