"""Decoding of Arrow IPC in requests. The declared sizes decide if, when and where a payload is decoded.

    payload ── plain, one batch ── room ──> a batch that shares its memory, on the loop; a long one's digest on a thread
       └────── outline: schema, rows, bytes once decoded (never the bytes on the wire)
                  │ columns that the stream does not have, too many rows or bytes: refused
                  ▼
               room for what it will decode to ── at most `ON_LOOP_BYTES` ──> decoded on the loop
                                                └─ more ────────────────────> on a thread, fair between senders

Compressed, 12 kB can stand for 256 MiB. So a payload is decompressed only after there is room for it, and after its
schema fits the stream. Arrow notices a false declared size: it allocates the declared size and refuses
data of any other size.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

import pyarrow as pa

from psoup.errors import InvalidBatch
from psoup.events.commands import SharedBatch
from psoup.model import DEFAULT_TENANT, StreamSpec, positions
from psoup.phrases import counted, verb
from psoup_service.gate.principal import Principal
from psoup_service.host.command_facts import COMMAND_BYTES, ROW_BYTES
from psoup_service.host.line import LARGE_BYTES
from psoup_service.host.room import TakenRoom
from psoup_service.wire import ipc, json_rows
from psoup_service.wire.decoders import QUICK_BYTES, Decoders
from psoup_service.wire.envelope import Outline
from psoup_service.wire.json_parameters import read_parameters
from psoup_service.wire.limits import Limits

if TYPE_CHECKING:
    from psoup_service.wire.text_rows.reader import RowReader

ON_LOOP_BYTES = 64 * 1024
"""The most bytes that the event loop decodes itself: about 50 us, less than a hop to a thread."""

ON_LOOP_JSON = 1024
"""The most bytes of JSON that the event loop reads itself: half a millisecond for the shortest values."""
_TEXT_COST = 256 * 1024
"""The size of a job that reads a piece of a text: some ten milliseconds for plain lines."""
_LONG_S = 0.05
"""The processor time of a piece whose lines are not plain."""

_JSON_COST = 16
"""The bytes of Arrow that take as long as a byte of JSON."""

_MOST_SHARED = 256 * 1024
"""The most bytes of a payload that shares a push. The event loop computes its digest, in some 30 us."""

_TURN = 8
"""The payloads of one message that the event loop reads before other calls go on."""

MOST_WIDTH = 9
"""The most bytes of a fixed-width value in a column, including its validity."""


T = TypeVar("T")


class Sender(Protocol):
    """The sender of a payload."""

    principal: Principal

    def peer(self) -> str:
        """The name of the connection."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A payload's rows, the digest of its bytes (empty unless requested), and the room that was taken for the rows."""

    table: pa.Table | pa.RecordBatch
    digest: bytes
    place: TakenRoom
    shared: tuple[SharedBatch, ...] = ()
    """The batches of a producer whose rows these are; empty for a single batch."""

    @property
    def nbytes(self) -> int:
        """The bytes of the rows in memory, from the taken room. `table.nbytes` would release the interpreter's lock."""
        return self.place.size - COMMAND_BYTES


class Decoding:
    """Decodes the payloads of requests.

    `limits`: the limits of payloads. `reserve`: takes room, like `Host.reserve`. `patience`: seconds to wait for room.
    """

    def __init__(
        self, limits: Limits, decoders: Decoders, reserve: Callable[..., Awaitable[TakenRoom]], patience: float
    ) -> None:
        self.limits = limits
        self._decoders = decoders
        self._reserve = reserve
        self._patience = patience

    async def batch(self, spec: StreamSpec, payload: ipc.Payload, sender: Sender, *, digest: bool = False) -> Decoded:
        """Decode the rows of a push to the stream `spec`, or of a staged part for it.

        Raises InvalidBatch, and the errors of taking room.
        """
        limits, width = self.limits, MOST_WIDTH * len(spec.schema.attributes)
        plain = ipc.plain_batch(payload, limits)
        if plain is not None:
            table, size = plain
            if len(payload) > ON_LOOP_BYTES:  # admission checks a short payload
                positions(spec.schema, table.schema.names)
            needed = check_width(spec, table.num_rows, width * table.num_rows, limits)
            place = await self._take_room(sender, max(needed, size, len(payload)))
            return Decoded(table, await self._digest(payload, place, sender) if digest else b"", place)
        outline = await self._outline(payload, sender)
        positions(spec.schema, outline.schema.names)
        needed = check_width(spec, outline.rows, width * outline.rows, limits)
        return await self._decode(payload, outline, max(needed, outline.size), sender, digest=digest)

    async def together(self, spec: StreamSpec, payloads: Sequence[ipc.Payload], sender: Sender) -> Decoded:
        """Decode the first of a producer's small batches: several that can share a push, or one as `batch` does.

        They are plain, have one schema, and take less room than a large push. Raises as `batch` does, for the first.
        """
        batches, shared, size = list[pa.RecordBatch](), list[SharedBatch](), 0
        for payload in payloads:
            plain = ipc.plain_batch(payload, self.limits) if len(payload) <= _MOST_SHARED else None
            if plain is None or (batches and not plain[0].schema.equals(batches[0].schema)):
                break
            batch = plain[0]
            needed = max(len(payload), plain[1], MOST_WIDTH * len(spec.schema.attributes) * batch.num_rows)
            if size + needed >= LARGE_BYTES - COMMAND_BYTES:
                break
            size += needed
            batches.append(batch)
            shared.append(SharedBatch(ipc.digest(payload), batch.num_rows))
            if len(batches) % _TURN == 0:
                await asyncio.sleep(0)
        if len(batches) < 2:
            return await self.batch(spec, payloads[0], sender, digest=True)
        place = await self._take_room(sender, size)
        return Decoded(pa.Table.from_batches(batches), shared[0].digest, place, tuple(shared))

    async def parameters(
        self, payload: ipc.Payload, text: int, sender: Sender, check_rows: Callable[[int], None]
    ) -> Decoded:
        """Decode the parameter rows of a registration. Each row becomes a query whose statement takes `text` bytes.

        `check_rows` gets the number of rows before anything is decoded, and may raise.
        """
        outline = await self._outline(payload, sender, ipc.PARAMETERS)
        check_rows(outline.rows)
        size = outline.size + outline.rows * (text + ROW_BYTES)
        return await self._decode(payload, outline, size, sender, digest=False, field=ipc.PARAMETERS)

    async def json_batch(self, spec: StreamSpec, raw: bytes, sender: Sender, *, digest: bool = False) -> Decoded:
        """Decode the rows in JSON of a push to the stream `spec`. Raises as `batch` does."""
        rows = json_rows.check_size(raw, "rows", "push in parts, or as Arrow IPC (Push)")
        needed = check_width(spec, rows, MOST_WIDTH * len(spec.schema.attributes) * rows, self.limits)

        def read(place: TakenRoom) -> Decoded:
            batch = json_rows.read_rows(raw, spec.schema)
            return Decoded(batch, ipc.digest(raw) if digest else b"", place)

        return await self._read_json(raw, max(needed, len(raw)), sender, read)

    async def json_parameters(
        self, raw: bytes, text: int, sender: Sender, check_rows: Callable[[int], None], *, many: bool
    ) -> tuple[Decoded, bool]:
        """Decode parameters in JSON, like `parameters`. The second value: whether they are given by name."""
        rows = json_rows.check_size(raw, "parameters", "send them as Arrow IPC") + raw.count(b"[")
        rows = rows if many else 1

        def read(place: TakenRoom) -> tuple[Decoded, bool]:
            table, by_name = read_parameters(raw, many=many)
            check_rows(table.num_rows if many else 1)
            return Decoded(table, b"", place), by_name

        return await self._read_json(raw, len(raw) + rows * (text + ROW_BYTES), sender, read)

    async def _read_json(self, raw: bytes, size: int, sender: Sender, read: Callable[[TakenRoom], T]) -> T:
        """Run `read` with room for `size` bytes: here if the text is short, else on a decoding thread."""
        place = await self._take_room(sender, size)
        if len(raw) > ON_LOOP_JSON:
            size = _JSON_COST * len(raw)
            return await self._decoders.run(_turns_of(sender), size, lambda: read(place), dropped=place.release)
        try:
            return read(place)
        except BaseException:
            place.release()
            raise

    async def text_rows(self, reader: RowReader, pieces: AsyncGenerator[Callable[[], bool]], sender: Sender) -> Decoded:
        """Decode the rows of a body in pieces.

        `pieces`: functions that read the next bytes into `reader`. Each returns whether it must be called once more.
        """
        place = await self._take_room(sender, 0)
        ahead = asyncio.ensure_future(anext(pieces, None))  # the next piece comes while the last one is read
        try:
            while (read := await ahead) is not None:
                ahead = asyncio.ensure_future(anext(pieces, None))
                while await self._decoders.run(_turns_of(sender), _text_cost(reader), read):
                    await self._grow(place, reader.nbytes, sender)
                await self._grow(place, reader.nbytes, sender)
            table, digest = await self._decoders.run(_turns_of(sender), max(reader.nbytes, 1), reader.table)
        except BaseException:
            place.release()
            raise
        finally:
            ahead.cancel()
            await asyncio.wait([ahead])
            await pieces.aclose()
        return Decoded(table, digest, place)

    async def _grow(self, place: TakenRoom, nbytes: int, sender: Sender) -> None:
        """Take room for the columns so far, which `place` holds from then on."""
        more = COMMAND_BYTES + nbytes - place.size
        if more > 0:
            added = await self._reserve(sender.principal.tenant, more, patience=self._patience)
            place.grow(more)
            added.release()

    async def run(self, sender: Sender, size: int, work: Callable[[], T]) -> T:
        """Run `work` on a decoding thread and return its result. Its `size` bytes already have their room."""
        return await self._decoders.run(_turns_of(sender), size, work)

    async def finish(self, decoded: Decoded, sender: Sender, work: Callable[[pa.Table | pa.RecordBatch], T]) -> T:
        """Run `work` with the rows on a decoding thread and return its result.

        Afterwards the room of the rows is given back.
        """
        size = max(decoded.place.size, decoded.table.nbytes)
        result = await self._decoders.run(
            _turns_of(sender), size, lambda: work(decoded.table), dropped=decoded.place.release
        )
        decoded.place.release()
        return result

    async def _take_room(self, sender: Sender, size: int) -> TakenRoom:
        return await self._reserve(sender.principal.tenant, COMMAND_BYTES + size, patience=self._patience)

    async def _digest(self, payload: ipc.Payload, place: TakenRoom, sender: Sender) -> bytes:
        """The digest of a payload. The event loop computes it up to `ON_LOOP_BYTES`, in at most 50 us."""
        if len(payload) <= ON_LOOP_BYTES:
            return ipc.digest(payload)
        return await self._decoders.run(
            _turns_of(sender), len(payload), lambda: ipc.digest(payload), dropped=place.release
        )

    async def _outline(self, payload: ipc.Payload, sender: Sender, field: str = ipc.PAYLOAD) -> Outline:
        """The outline of a payload: at once if possible, else from a decoding thread that reads all messages."""
        outline = ipc.outlined(payload, self.limits)
        if outline is not None:
            return outline
        return await self._decoders.run(
            _turns_of(sender), len(payload), lambda: ipc.measured(payload, self.limits, field)
        )

    async def _decode(
        self,
        payload: ipc.Payload,
        outline: Outline,
        size: int,
        sender: Sender,
        *,
        digest: bool,
        field: str = ipc.PAYLOAD,
    ) -> Decoded:
        limits = self.limits
        place = await self._take_room(sender, size)

        def decode() -> Decoded:
            table = ipc.decode_push(payload, limits, field)
            place.grow(ipc.written_out(table))
            return Decoded(table, ipc.digest(payload) if digest else b"", place)

        if max(outline.size, len(payload)) <= ON_LOOP_BYTES:
            try:
                return decode()
            except BaseException:
                place.release()
                raise
        return await self._decoders.run(
            _turns_of(sender), max(outline.size, len(payload)), decode, dropped=place.release
        )


def _text_cost(reader: RowReader) -> int:
    """The size of a job that reads the next piece of a text. After a long one it goes to the thread of long jobs."""
    return _TEXT_COST if reader.seconds < _LONG_S else QUICK_BYTES + 1


def check_width(spec: StreamSpec, rows: int, needed: int, limits: Limits) -> int:
    """Return `needed`, or raise InvalidBatch if it exceeds `batch_decoded_bytes`.

    A few sent bytes can fill wide columns: bits, or NULLs in missing columns.
    """
    if needed > limits.batch_decoded_bytes:
        raise InvalidBatch(
            f"{counted(rows, 'row')} {verb(rows, 'takes', 'take')} {needed:,} bytes in the"
            f" {counted(len(spec.schema.attributes), 'column')} of {spec.name!r}; {limits.batch_decoded_bytes:,} is the"
            " most in one push, send it in parts",
            reason="BATCH_TOO_LARGE",
            found=needed,
            limit=limits.batch_decoded_bytes,
        )
    return needed


def _turns_of(sender: Sender) -> str:
    """The name of the party that takes turns: the tenant, or in the tenant `default` the connection."""
    tenant = sender.principal.tenant
    return sender.peer() if tenant == DEFAULT_TENANT else tenant
