"""The extended protocol: Parse, Bind, Describe, Execute, Close, Flush and Sync.

    Parse ─> statement   Bind ─> portal   Execute ─> rows   Sync ─> ready
      └─ an error: all messages up to Sync are left out

Portals end with their transaction: at Sync outside of BEGIN and COMMIT, else at the end of the block.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from psoup.errors import FailedPrecondition, InvalidInput
from psoup_service.pg import messages
from psoup_service.pg.contract import BINARY, TEXT, Argument, Session
from psoup_service.pg.cursors.cursor import Take
from psoup_service.pg.input import Message
from psoup_service.pg.messages import Body, decoded, malformed
from psoup_service.pg.portals import MOST_PORTALS, MOST_STATEMENTS, Named, Portal, Prepared
from psoup_service.pg.sink import ClientSink, Exchange, row_description
from psoup_service.pg.statement_texts import check_size

SYNC = b"S"


class ExtendedQueries:
    """The statements and portals of a connection. `skipping`: a message has failed, and Sync has not come yet."""

    def __init__(self, session: Session, exchange: Exchange) -> None:
        self.skipping = False
        self._session = session
        self._exchange = exchange
        self._channel, account = exchange.channel, exchange.account
        self._statements: Named[Prepared] = Named("prepared statement", MOST_STATEMENTS, account)
        self._portals: Named[Portal] = Named("portal", MOST_PORTALS, account)
        self._steps: dict[bytes, Callable[[Body], Awaitable[None]]] = {
            b"P": self._parse,
            b"B": self._bind,
            b"D": self._describe,
            b"E": self._execute,
            b"C": self._close,
        }
        self.text = ""
        """The text of the present statement, for the position of an error."""

    def takes(self, kind: bytes) -> bool:
        """Whether a message belongs to the extended protocol. Flush and Sync do not need these steps."""
        return kind in self._steps

    async def step(self, message: Message) -> None:
        """Carry out a message. Raises a PSoupError."""
        self.text = ""
        await self._steps[message.kind](message.body())

    def portal(self, name: str) -> OpenPortal | None:
        """The open portal with a name, for statements about cursors; None if there is none."""
        portal = self._portals.find(name)
        return None if portal is None else OpenPortal(name, portal, self._sink(portal))

    async def end_transaction(self) -> None:
        """Close all portals, unless a transaction is open."""
        if self._session.status == b"I" and len(self._portals):
            await self.close_portals()

    async def close_portals(self) -> None:
        """Close all portals."""
        for name in self._portals.names():
            await self._end(name)

    async def close_all(self) -> None:
        """Close all statements and portals, and give back their bytes."""
        await self.close_portals()
        for name in self._statements.names():
            self._statements.remove(name)

    def forget(self, name: str | None) -> bool:
        """Forget a statement, or all if `name` is None. Returns whether there was one."""
        names = self._statements.names() if name is None else [name]
        return [each for each in names if self._statements.remove(each) is not None] != []

    def forget_unnamed(self) -> None:
        """Forget the unnamed statement, as a simple query does."""
        self._statements.remove("")

    async def _parse(self, body: Body) -> None:
        name, raw = body.text(), body.text_bytes()
        check_size(raw, self._exchange.statement_bytes)
        text = decoded(raw)
        types = tuple(body.uint32() for _ in range(body.count(4)))
        body.end()
        self.text = text
        if not name:
            self._statements.remove(name)
        self._statements.check(name)
        statement = await self._session.read(text, types)
        self._statements.add(name, Prepared(text, statement, types))
        self._channel.write(messages.PARSED)

    async def _bind(self, body: Body) -> None:
        name, prepared = body.text(), self._statements.get(body.text())
        self.text = prepared.text
        formats = _formats(body)
        raws = [_value(body) for _ in range(body.count(4))]
        if len(formats) not in (0, 1, len(raws)):
            raise malformed(f"Bind gives {len(formats)} formats for {len(raws)} arguments")
        shown = _formats(body)
        body.end()
        forms = formats * len(raws) if len(formats) == 1 else formats or [TEXT] * len(raws)
        pairs = enumerate(zip(raws, forms, strict=True))
        arguments = tuple(Argument(raw, form, prepared.type_of(number)) for number, (raw, form) in pairs)
        if not name:
            await self._end(name)
        self._portals.check(name)
        size = sum(128 + len(raw or b"") for raw in raws)
        self._portals.add(name, Portal(prepared, arguments, shown, size))
        self._channel.write(messages.BOUND)

    async def _describe(self, body: Body) -> None:
        kind, name = body.byte(), body.text()
        body.end()
        if kind == b"S":
            prepared = self._statements.get(name)
            self.text = prepared.text
            description = await prepared.describe()
            self._channel.write(messages.parameter_description(description.parameters))
            formats = [TEXT] * len(description.columns or ())
        elif kind == b"P":
            cursor = self._session.cursor(name)
            if cursor is not None:
                self._channel.write(row_description(cursor, [TEXT] * len(cursor)))
                return
            portal = self._portals.get(name)
            self.text = portal.prepared.text
            description = await portal.prepared.describe()
            formats = portal.column_formats(description.columns or ())
        else:
            raise malformed(f"Describe of {kind!r}")
        columns = description.columns
        self._channel.write(messages.NO_DATA if columns is None else row_description(columns, formats))

    async def _execute(self, body: Body) -> None:
        name, limit = body.text(), body.int32()
        body.end()
        portal = self._portals.get(name)
        self.text = portal.prepared.text
        if portal.prepared.statement is None:
            self._channel.write(messages.EMPTY_QUERY)
            return
        before = self._session.status
        self._channel.write(await portal.execute(self._sink(portal), max(0, limit)))
        if before != b"I":
            await self.end_transaction()

    async def _close(self, body: Body) -> None:
        kind, name = body.byte(), body.text()
        body.end()
        if kind == b"S":
            self._statements.remove(name)
        elif kind == b"P":
            await self._end(name)
        else:
            raise malformed(f"Close of {kind!r}")
        self._channel.write(messages.CLOSED)

    def _sink(self, portal: Portal) -> ClientSink:
        described = portal.prepared.shown_columns()
        return ClientSink(self._exchange, self._session.zone, formats=portal.column_formats, described=described)

    async def _end(self, name: str) -> None:
        portal = self._portals.remove(name)
        if portal is not None:
            await portal.close()


class OpenPortal:
    """An open portal, as statements about cursors see it: see `cursor_steps.Readable`."""

    def __init__(self, name: str, portal: Portal, sink: ClientSink) -> None:
        """`sink`: receives the rows of a portal that has not run yet."""
        self.name = name
        self._portal = portal
        self._sink = sink

    @property
    def position(self) -> int:
        """The number of rows that were sent or skipped."""
        return self._portal.position

    @property
    def on_row(self) -> bool:
        """Whether the position is a row, and not before the first row or after the last one."""
        return self._portal.on_row

    def fail(self) -> None:
        """Do nothing: the portal ends with its transaction, which has failed."""

    async def read(self, limit: int | None, take: Take) -> int:
        """Hand the next rows to `take`. Returns their number. Raises FailedPrecondition for a portal without rows.

        So a portal never moves itself, as the statement MOVE has no rows.
        """
        if not await self._portal.prepared.has_rows():
            raise FailedPrecondition(f'portal "{self.name[:63]}" has no rows to move over', reason="CURSOR_FORWARD")
        return await self._portal.read(self._sink, limit, take)


def _formats(body: Body) -> list[int]:
    formats = [body.int16() for _ in range(body.count(2))]
    for form in formats:
        if form not in (TEXT, BINARY):
            raise InvalidInput(f"{form} is not a format: 0 is text, 1 is binary", reason="PROTOCOL")
    return formats


def _value(body: Body) -> bytes | None:
    size = body.int32()
    return None if size == -1 else body.bytes(size)
