"""A client of PostgreSQL's protocol that writes bytes as a test gives them, also wrong ones."""

from __future__ import annotations

import socket
import struct
from types import TracebackType

TIMEOUT_S = 20.0


class PgSocket:
    """A connection. `address`: "host:port" of the service's port. `receive_bytes`: what the system buffers unread."""

    def __init__(self, address: str, receive_bytes: int = 0) -> None:
        host, port = address.rsplit(":", 1)
        self.opened = socket.socket()
        self.opened.settimeout(TIMEOUT_S)
        if receive_bytes:
            self.opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.opened.connect((host, int(port)))
        self.number, self.key = 0, b""

    def __enter__(self) -> PgSocket:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self.opened.close()

    def send(self, *parts: bytes) -> None:
        """Send bytes."""
        self.opened.sendall(b"".join(parts))

    def start(self, **parameters: str) -> PgSocket:
        """Send a start-up packet, and read up to ReadyForQuery."""
        self.send(startup(**{"user": "anybody", **parameters}))
        for kind, body in self.until(b"Z"):
            if kind == b"K":
                self.number, self.key = struct.unpack("!i", body[:4])[0], body[4:]
        return self

    def read(self) -> tuple[bytes, bytes]:
        """The next message: its kind and its body. The kind is empty at the end of the connection."""
        head = self._exactly(5)
        return (head[:1], self._exactly(struct.unpack("!i", head[1:])[0] - 4)) if head else (b"", b"")

    def until(self, last: bytes) -> list[tuple[bytes, bytes]]:
        """The messages up to the first of a kind."""
        messages = [self.read()]
        while messages[-1][0] not in (last, b""):
            messages.append(self.read())
        assert messages[-1][0] == last, [kind for kind, _ in messages]
        return messages

    def kinds(self, last: bytes = b"Z") -> str:
        """The kinds of the messages up to the first of a kind."""
        return b"".join(kind for kind, _ in self.until(last)).decode()

    def error(self) -> dict[str, str]:
        """The fields of the next error, by their letters. Skips other messages."""
        return fields(self.until(b"E")[-1][1])

    def ended(self) -> bool:
        """Whether the service has closed the connection. Skips what it sent before."""
        try:
            while self.opened.recv(65_536):
                pass
        except ConnectionResetError:
            pass
        return True

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self.opened.recv(size - len(parts))
            if not part:
                return b""
            parts += part
        return bytes(parts)


def startup(**parameters: str) -> bytes:
    """A start-up packet of version 3.0."""
    pairs = b"".join(text(name) + text(value) for name, value in parameters.items())
    return packet(struct.pack("!i", 3 << 16) + pairs + b"\0")


def packet(body: bytes) -> bytes:
    """A packet without a kind."""
    return struct.pack("!i", len(body) + 4) + body


def cancel_of(client: PgSocket, wrong: int = 0) -> bytes:
    """A cancel request for the statement of a client. `wrong`: a change of its key."""
    key = struct.unpack("!I", client.key)[0] ^ wrong
    return packet(struct.pack("!iiI", 1234 << 16 | 5678, client.number, key))


def message(kind: bytes, body: bytes = b"") -> bytes:
    """A message of the client."""
    return kind + packet(body)


def text(value: str) -> bytes:
    """A text with its zero byte."""
    return value.encode() + b"\0"


def query(statement: str) -> bytes:
    """A statement of the simple protocol."""
    return message(b"Q", text(statement))


def parse(statement: str, name: str = "", *types: int) -> bytes:
    """A Parse message."""
    return message(b"P", text(name) + text(statement) + struct.pack(f"!h{len(types)}I", len(types), *types))


def bind(portal: str = "", statement: str = "", *values: bytes | None, formats: tuple[int, ...] = ()) -> bytes:
    """A Bind message with arguments in text format. `formats`: of the columns."""
    arguments = b"".join(struct.pack("!i", -1) if v is None else struct.pack("!i", len(v)) + v for v in values)
    head = text(portal) + text(statement) + struct.pack("!hh", 0, len(values))
    return message(b"B", head + arguments + struct.pack(f"!h{len(formats)}h", len(formats), *formats))


def execute(portal: str = "", limit: int = 0) -> bytes:
    """An Execute message."""
    return message(b"E", text(portal) + struct.pack("!i", limit))


def describe(kind: bytes, name: str = "") -> bytes:
    """A Describe message; `kind`: b"S" or b"P"."""
    return message(b"D", kind + text(name))


def close(kind: bytes, name: str = "") -> bytes:
    """A Close message; `kind`: b"S" or b"P"."""
    return message(b"C", kind + text(name))


SSL_REQUEST, GSS_REQUEST = (packet(struct.pack("!i", 1234 << 16 | code)) for code in (5679, 5680))
SYNC, FLUSH, TERMINATE = message(b"S"), message(b"H"), message(b"X")


def fields(body: bytes) -> dict[str, str]:
    """The fields of an error or a notice, by their letters."""
    return {part[:1].decode(): part[1:].decode() for part in body.split(b"\0") if part}


def cells(body: bytes) -> list[bytes | None]:
    """The values of a DataRow."""
    at, values = 2, list[bytes | None]()
    for _ in range(struct.unpack("!h", body[:2])[0]):
        size = struct.unpack("!i", body[at : at + 4])[0]
        values.append(None if size < 0 else body[at + 4 : at + 4 + size])
        at += 4 + max(0, size)
    return values
