"""The end of a transaction under a cancel: no room stays charged, and no SELECT of a cursor goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from psoup_service.host.reads.held_snapshots import HeldSnapshot
from psoup_service.pg.account import Account
from psoup_service.pg.contract import Argument, Column, Description, Sink
from psoup_service.pg.cursors.cursors import Cursors
from psoup_service.pg.statements.settings import SessionSettings
from psoup_service.pg.statements.transactions import IDLE, Transaction, Transactions
from psoup_service.pg.statements.words import Words
from psoup_service.pg.statements.writing.row_buffer import RowBuffer
from psoup_service.wire.limits import Limits
from psoup_service.wire.request_bodies import Receiving

ROWS = pa.record_batch({"n": pa.array(range(50_000), pa.int64())})
"""Rows that take room: small ones are free."""


class Endless:
    """A SELECT with one batch that the client never reads, and that ends only when `may_end` is set."""

    def __init__(self) -> None:
        self.cancelled = self.ended = 0
        self.ending = asyncio.Event()
        self.may_end = asyncio.Event()

    async def describe(self) -> Description:
        """The column of the SELECT."""
        return Description((), (Column("n", 20),))

    async def run(self, arguments: Sequence[Argument], sink: Sink) -> str:
        """Hand over a batch."""
        await sink.begin((Column("n", 20),))
        try:
            await sink.batch(ROWS)
        finally:
            self.cancelled += 1
            self.ending.set()
            await self.may_end.wait()
            self.ended += 1
        return "SELECT"


class Parts:
    """The transactions of a session whose calls go to `one`."""

    def __init__(self) -> None:
        self.receiving = Receiving(Limits())
        account = Account(self.receiving, "default")
        self.select = Endless()
        self.called = list[str]()
        self.cursors = Cursors(self._read, lambda: True, lambda name: None, account, lambda: "")
        self.transactions = Transactions(
            SessionSettings({}),
            lambda before: None,
            lambda: Transaction(RowBuffer(self, account), HeldSnapshot("default")),
            lambda moment: None,
            self.cursors,
        )

    async def _read(self, text: str, types: Sequence[int]) -> Endless:
        return self.select

    async def one(self, name: str, request: Any) -> Any:
        """Note a call, and answer it."""
        self.called.append(name.rpartition("/")[2])
        return request

    async def seen(self, sequence: int) -> None:
        """Return at once."""

    async def begin(self, count: int) -> None:
        """Begin a transaction with some cursors, and with rows."""
        await self.run("BEGIN")
        for number in range(count):
            declare = Words(f"c{number} CURSOR FOR SELECT n FROM s")
            await (await self.cursors.read_declare(declare, ())).run((), None)  # type: ignore[arg-type]
        assert self.transactions.current is not None
        await self.transactions.current.rows.add("s", ROWS)

    async def run(self, word: str) -> str:
        """Run a statement about transactions."""
        readers = {"COMMIT": self.transactions.read_commit, "ROLLBACK": self.transactions.read_rollback}
        if word == "BEGIN":
            return await self.transactions.read_begin(Words(""), word).run((), None)  # type: ignore[arg-type]
        return await readers[word](Words("")).run((), None)  # type: ignore[arg-type]


@pytest.mark.parametrize("word", ["COMMIT", "ROLLBACK"])
def test_a_cancel_while_cursors_close_leaves_no_room_and_no_cursor_behind(word: str) -> None:
    async def scenario() -> None:
        parts = Parts()
        await parts.begin(3)
        assert parts.receiving.bytes >= 4 * ROWS.nbytes
        ending = asyncio.create_task(parts.run(word))
        try:
            async with asyncio.timeout(30):
                await parts.select.ending.wait()
                ending.cancel()
                await asyncio.wait((ending,))
            await asyncio.sleep(0)
            assert parts.transactions.status == IDLE
            assert not parts.cursors.listed()
            assert parts.select.cancelled == 3
            assert ("Push" in parts.called) == (word == "COMMIT")
        finally:
            parts.select.may_end.set()
        async with asyncio.timeout(30):
            while parts.select.ended < 3:
                await asyncio.sleep(0)
        assert parts.receiving.bytes == 0

    asyncio.run(scenario())
