"""The body of a request with rows, read in pieces. It may be larger than the memory of one request.

content-length ── room for three pieces ──> pieces of `PIECE_BYTES` ── gzip? ──> the reader of its rows
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.types import Receive

from psoup.errors import InvalidInput, ResourceExhausted
from psoup.model import StreamSpec
from psoup_service.web.bodies import length
from psoup_service.web.row_paths import ARROW, CSV, idempotency_key, is_zipped, rows_type
from psoup_service.wire.calls import Caller
from psoup_service.wire.limits import Limits
from psoup_service.wire.payload_decoder import Decoded, Decoding

if TYPE_CHECKING:
    from psoup_service.wire.text_rows.reader import RowReader

PIECE_BYTES = 1024 * 1024
"""The bytes of a piece, before and after decompression."""
MOST_BYTES = 1024 * 1024 * 1024
"""The most bytes of a body in NDJSON or CSV, as it is sent."""
MOST_ARROW_BYTES = 64 * 1024 * 1024
"""The most bytes of a body in Arrow, which is read as a whole."""
_MOST_OF_FORM = {ARROW: MOST_ARROW_BYTES}
_GZIP = 31
"""The value of zlib's `wbits` for the format gzip."""
_MOST_MEMBERS = 1_000
"""The most members of a gzip. After each member the remaining bytes are copied."""
_REFUSED = {"raise": True, "count": False}
"""The choices of the parameter `refused`, for rows that are too late or too far ahead of the clock."""


@dataclass(frozen=True, slots=True)
class RowOptions:
    """The parameters of a request with rows. `delimiter`, `nulls`: of a CSV, as in `CsvOptions`."""

    all_or_none: bool
    delimiter: str | None = None
    nulls: tuple[str, ...] = ()

    def salt(self, form: str) -> bytes:
        """The options that change how the body is read, for its digest."""
        return f"{form} {self.delimiter!r} {self.nulls!r}".encode()


@dataclass(slots=True)
class RowsBody:
    """Rows that a client sends, before they are read. `size`: the bytes on the wire."""

    stream: str
    key: str
    form: str
    size: int
    zipped: bool
    options: RowOptions
    idle_s: float
    """The most seconds between two parts of the body."""
    receive: Receive
    reader: RowReader | None = None

    @staticmethod
    def of(stream: str, headers: Headers, query: bytes, idle_s: float, receive: Receive) -> RowsBody:
        """Read the head of a request. Raises InvalidInput, and ResourceExhausted for a body that is too long."""
        key, form = idempotency_key(headers), rows_type(headers)
        size = length(
            headers.getlist("content-length"),
            _MOST_OF_FORM.get(form, MOST_BYTES),
            f" as {form}; send it in parts, each with its own Idempotency-Key",
        )
        return RowsBody(stream, key, form, size, is_zipped(headers), _options(query, form), idle_s, receive)

    @property
    def is_arrow(self) -> bool:
        """Whether the rows are Arrow, which is read as a whole."""
        return self.form == ARROW

    @property
    def all_or_none(self) -> bool:
        """Whether no row is taken if one is too late, or too far ahead of the clock."""
        return self.options.all_or_none

    async def decode(self, decoding: Decoding, spec: StreamSpec, caller: Caller) -> Decoded:
        """Read the rows. `spec`: the stream. Raises a PSoupError."""
        if self.is_arrow:
            return await self._arrow(decoding, spec, caller)
        reader = await decoding.run(caller, 1, lambda: _reader(self, spec, decoding.limits))
        self.reader = reader
        return await decoding.text_rows(reader, self._reads(reader), caller)

    async def _arrow(self, decoding: Decoding, spec: StreamSpec, caller: Caller) -> Decoded:
        if self.zipped:
            raise InvalidInput(
                "a body in Arrow cannot be gzip; compress its buffers with LZ4 or ZSTD instead",
                reason="CONTENT_ENCODING",
            )
        parts = [piece async for piece, _ in self._pieces()]
        if len(parts) == 1:
            [payload] = parts
        else:
            payload = await decoding.run(caller, self.size, lambda: b"".join(parts))
            parts.clear()  # else the bytes are held twice
        return await decoding.batch(spec, payload, caller, digest=True)

    async def _reads(self, reader: RowReader) -> AsyncGenerator[Callable[[], bool]]:
        """Yield functions that read the next piece. Each returns whether it must be called again."""
        unzip = _Gunzip() if self.zipped else None
        async for piece, last in self._pieces():
            yield _Plain(reader, piece, last) if unzip is None else _Zipped(unzip, reader, piece, last)

    async def _pieces(self) -> AsyncIterator[tuple[bytes, bool]]:
        """The bytes of the body, and whether they are the last. Raises ResourceExhausted if the client stalls."""
        parts, size, more = list[bytes](), 0, True
        while more:
            try:
                async with asyncio.timeout(self.idle_s):
                    message = await self.receive()
            except TimeoutError:
                raise ResourceExhausted(
                    f"no byte of the body came for {self.idle_s:g} s, so no row was taken; send it without pauses",
                    reason="RECEIVE_DEADLINE",
                ) from None
            if message["type"] != "http.request":
                raise asyncio.CancelledError
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            more = message.get("more_body", False)
            if size >= PIECE_BYTES or not more:
                yield b"".join(parts), not more
                parts, size = [], 0


class _Plain:
    """Reads a piece that is not compressed."""

    def __init__(self, reader: RowReader, piece: bytes, last: bool) -> None:
        self._reader = reader
        self._piece = piece
        self._last = last

    def __call__(self) -> bool:
        self._reader.feed(self._piece, last=self._last)
        return False


class _Zipped:
    """Reads a compressed piece, one part at each call."""

    def __init__(self, unzip: _Gunzip, reader: RowReader, piece: bytes, last: bool) -> None:
        self._unzip = unzip
        self._reader = reader
        self._piece = piece
        self._last = last

    def __call__(self) -> bool:
        piece, self._piece = self._piece, b""
        if piece or self._last:
            self._unzip.take(piece, self._last)
        return self._unzip.read(self._reader)


class _Gunzip:
    """Decompresses pieces, a bounded part at a time. A file of gzip may have several members."""

    def __init__(self) -> None:
        self._zip = zlib.decompressobj(_GZIP)
        self._rest = b""
        self._members = 1
        self._last = False

    def take(self, piece: bytes, last: bool) -> None:
        """Take the next bytes."""
        self._rest += piece
        self._last = last

    def read(self, reader: RowReader) -> bool:
        """Decompress the next part into `reader`. Returns whether there is more. Raises InvalidInput."""
        if self._zip.eof and self._rest:
            self._members += 1
            if self._members > _MOST_MEMBERS:
                raise InvalidInput(f"the gzip has more than {_MOST_MEMBERS} members", reason="CONTENT_ENCODING")
            self._zip = zlib.decompressobj(_GZIP)
        try:
            part = self._zip.decompress(self._rest, PIECE_BYTES)
        except zlib.error as problem:
            raise InvalidInput(f"the body is not gzip: {problem}", reason="CONTENT_ENCODING") from None
        self._rest = self._zip.unused_data if self._zip.eof else self._zip.unconsumed_tail
        more = bool(self._rest) or len(part) == PIECE_BYTES
        ended = self._last and not more
        if ended and not self._zip.eof:
            raise InvalidInput("the body ends within its gzip; send it whole", reason="CONTENT_ENCODING")
        reader.feed(part, last=ended)
        return more


def _reader(body: RowsBody, spec: StreamSpec, limits: Limits) -> RowReader:
    """The reader of a body of lines. Its modules are imported at the first request: some ten milliseconds."""
    from psoup_proto.csv_rows.pieces import CsvOptions
    from psoup_service.wire.text_rows import csv_lines, reader

    options = CsvOptions(nulls=body.options.nulls, delimiter=body.options.delimiter)
    lines = csv_lines.CsvLines(spec, options) if body.form == CSV else reader.NdjsonLines()
    return reader.RowReader(spec, lines, limits, body.options.salt(body.form))


def _options(query: bytes, form: str) -> RowOptions:
    """Parse the parameters behind ? in the path. Raises InvalidInput for an invalid one."""
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, strict_parsing=bool(query), max_num_fields=16)
    except ValueError:
        raise InvalidInput("the parameters behind ? in the path cannot be read", reason="PARAMETER") from None
    allowed = ("refused", "delimiter", "null") if form == CSV else ("refused",)
    given = dict(pairs)
    for name, value in pairs:
        if name not in allowed:
            raise _wrong(name, value, f"rows in {form} take {', '.join(allowed)}")
        if name != "null" and sum(other == name for other, _ in pairs) > 1:
            raise _wrong(name, value, "give it once")
    if given.get("refused", "raise") not in _REFUSED:
        raise _wrong("refused", given["refused"], "write raise or count")
    delimiter = given.get("delimiter")
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0'):
        raise _wrong("delimiter", delimiter, "write one character of ASCII, such as %3B for a semicolon")
    return RowOptions(
        _REFUSED[given.get("refused", "raise")],
        delimiter,
        tuple(value for name, value in pairs if name == "null"),
    )


def _wrong(name: str, value: str, way_out: str) -> InvalidInput:
    return InvalidInput(f"the parameter {name[:40]!r} = {value[:40]!r} is not valid; {way_out}", reason="PARAMETER")
