"""Messages of PostgreSQL's protocol, version 3: bytes that clients send, and bytes that they get.

    client   [kind, 1 byte] [length, 4 bytes, with itself] [body]       a start-up packet has no kind
    service  [kind, 1 byte] [length, 4 bytes, with itself] [body]

`Body` reads the fields of a message. Every read checks what is left, so a false length is an error, never a crash.
Source: the chapter "Frontend/Backend Protocol" of PostgreSQL's documentation.
"""

from __future__ import annotations

import builtins
import struct
from collections.abc import Mapping, Sequence

from psoup.errors import InvalidInput
from psoup_service.pg.contract import Column

CANCEL, TLS, GSS = (1234 << 16 | 5678, 1234 << 16 | 5679, 1234 << 16 | 5680)
"""Codes of start-up packets: a cancel request, a request for TLS, and one for GSSAPI."""

AUTHENTICATED, CLEARTEXT_PASSWORD = 0, 3
"""Codes of the authentication: its end, and a request for a password in plain text."""

_INT32, _INT16, _COLUMN = struct.Struct("!i"), struct.Struct("!h"), struct.Struct("!IhIhih")


def malformed(problem: str) -> InvalidInput:
    """The error for bytes that are not a message of the protocol."""
    return InvalidInput(f"the message is not one of PostgreSQL's protocol: {problem}", reason="PROTOCOL")


class Body:
    """The fields of a message, read from its beginning. Each method raises InvalidInput if the bytes do not suffice."""

    __slots__ = ("_at", "_raw")

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0

    @property
    def left(self) -> int:
        """Bytes that are not read yet."""
        return len(self._raw) - self._at

    def byte(self) -> bytes:
        """The next byte."""
        return self.bytes(1)

    def int16(self) -> int:
        """A signed integer of two bytes."""
        return int(_INT16.unpack(self.bytes(2))[0])

    def int32(self) -> int:
        """A signed integer of four bytes."""
        return int(_INT32.unpack(self.bytes(4))[0])

    def uint32(self) -> int:
        """An unsigned integer of four bytes, such as an OID."""
        return self.int32() & 0xFFFFFFFF

    def count(self, size: int) -> int:
        """A number of entries. The bytes that are left must suffice for `size` bytes for each."""
        number = self.int16() & 0xFFFF
        if number * size > self.left:
            raise malformed(f"it announces {number} entries, and {self.left} bytes follow")
        return number

    def bytes(self, size: int) -> bytes:
        """The next bytes."""
        if not 0 <= size <= self.left:
            raise malformed(f"a field has {size} bytes, and {self.left} are left")
        self._at += size
        return self._raw[self._at - size : self._at]

    def end(self) -> None:
        """Raise InvalidInput if bytes are left."""
        if self.left:
            raise malformed(f"{self.left} bytes follow its last field")

    def text(self) -> str:
        """A text that ends with a zero byte."""
        return decoded(self.text_bytes())

    def text_bytes(self) -> builtins.bytes:
        """The bytes of a text that ends with a zero byte, without that byte."""
        end = self._raw.find(b"\0", self._at)
        if end < 0:
            raise malformed("a text has no end")
        raw, self._at = self._raw[self._at : end], end + 1
        return raw


def decoded(raw: bytes) -> str:
    """A text of the client. Raises InvalidInput for bytes that are not UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise malformed("a text is not UTF-8") from None


def message(kind: bytes, body: bytes = b"") -> bytes:
    """A message of the service."""
    return kind + _INT32.pack(len(body) + 4) + body


def cstring(text: str) -> bytes:
    """A text with a zero byte at its end. Zero bytes within are left out."""
    return text.replace("\0", "").encode("utf-8", "replace") + b"\0"


def parameter_status(name: str, value: str) -> bytes:
    """A setting that the client should know."""
    return message(b"S", cstring(name) + cstring(value))


def backend_key(number: int, key: bytes) -> bytes:
    """The number and the secret key that a cancel request for this connection must have."""
    return message(b"K", _INT32.pack(number) + key)


def authentication(code: int) -> bytes:
    """A step of the authentication: one of the codes above."""
    return message(b"R", _INT32.pack(code))


def negotiated_version(unknown: Sequence[str]) -> bytes:
    """The newest version that the service speaks (3.0), and the options of the client that it does not know."""
    return message(b"v", struct.pack("!II", 0, len(unknown)) + b"".join(map(cstring, unknown)))


def ready(status: bytes) -> bytes:
    """ReadyForQuery: the client may send the next statement. `status`: see `contract.Session`."""
    return message(b"Z", status)


def complete(tag: str) -> bytes:
    """The end of a command."""
    return message(b"C", cstring(tag))


def told(kind: bytes, fields: Mapping[str, str]) -> bytes:
    """An error (kind b"E") or a notice (kind b"N"). `fields`: its fields by their letters."""
    body = b"".join(letter.encode() + cstring(value) for letter, value in fields.items() if value)
    return message(kind, body + b"\0")


def row_description(columns: Sequence[Column], sizes: Sequence[int], formats: Sequence[int]) -> bytes:
    """The columns of the rows that follow. `sizes`: bytes of a value of each type, -1 if they vary."""
    parts = [_INT16.pack(len(columns))]
    for column, size, form in zip(columns, sizes, formats, strict=True):
        parts.append(cstring(column.name))
        parts.append(_COLUMN.pack(column.relation, column.attribute, column.oid, size, column.modifier, form))
    return message(b"T", b"".join(parts))


def parameter_description(oids: Sequence[int]) -> bytes:
    """The types of a statement's parameters."""
    return message(b"t", struct.pack(f"!H{len(oids)}I", len(oids), *oids))


def notification(process: int, channel: str, payload: str) -> bytes:
    """A change that the client listens for."""
    return message(b"A", struct.pack("!I", process) + cstring(channel) + cstring(payload))


def copy_response(kind: bytes, copied_format: int, columns: int) -> bytes:
    """The beginning of a COPY: kind b"H" for data to the client, b"G" for data from it."""
    return message(kind, struct.pack(f"!bh{columns}h", copied_format, columns, *[copied_format] * columns))


EMPTY_QUERY = message(b"I")
NO_DATA = message(b"n")
PARSED, BOUND, CLOSED, SUSPENDED = message(b"1"), message(b"2"), message(b"3"), message(b"s")
COPY_DONE = message(b"c")
