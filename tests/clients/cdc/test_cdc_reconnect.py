"""A feed that loses its connection: transactions that PostgreSQL sends again are not applied again.

    connection 0   10  20  30 | lost           nothing is confirmed
    connection 1   10  20  30  40  50 | lost   PostgreSQL sends everything again
    connection 2   10  20  30  40  50  60      the table has six entries

PostgreSQL is a script here, so that the moment of each loss is exact. `tests/crash/test_crash_cdc.py` kills a real one.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import pytest

from psoup_testing.suite.sweeps import swept

pytest.importorskip("psycopg2", reason="psycopg2 is not installed (the extra psoup[postgres])")

from psoup_cdc import SourceTable, Start, TableFeed, TargetTable, producer_name, text_of
from psoup_cdc.pgoutput import SourceColumn
from psoup_cdc.source import SlotState
from psoup_client import Client, Unavailable
from psoup_testing.oracles.questions import again

INT = 23
COLUMNS = (SourceColumn("k", INT, -1), SourceColumn("v", INT, -1))
SOURCE = SourceTable("public", "t", "d", COLUMNS, (), ("k",), ("k",), 0)
KEYS = 3
STEP = 10
"""The LSNs between the ends of two transactions."""


def relation() -> bytes:
    """The message that describes the table."""
    columns = b"".join(b"\1" + column.name.encode() + b"\0" + struct.pack(">ii", INT, -1) for column in COLUMNS)
    return b"R" + struct.pack(">i", 7) + b"public\0t\0d" + struct.pack(">h", len(COLUMNS)) + columns


def transaction(number: int) -> list[bytes]:
    """The messages of a transaction that sets a row to its number."""
    cells = [b"%d" % (number % KEYS), b"%d" % number]
    row = struct.pack(">h", len(cells)) + b"".join(b"t" + struct.pack(">i", len(cell)) + cell for cell in cells)
    end = STEP * number
    return [
        b"B" + struct.pack(">qqi", end - 1, 0, number),
        b"I" + struct.pack(">i", 7) + b"N" + row,
        b"C\0" + struct.pack(">qqq", end - 1, end, 0),
    ]


@dataclass
class ScriptedPostgres:
    """A database with transactions 1 to `transactions`. `losses`: connections that are lost, each with the number of
    transactions that it sends before. `resends`: whether each connection begins with the first transaction
    that is not confirmed, whatever the feed asks for.
    """

    owner_id: str
    transactions: int
    losses: dict[int, int]
    resends: bool
    connections: int = 0
    confirmed: int = 0
    sent: int = 0
    """Transactions that all connections have sent."""

    def slot(self) -> SlotState:
        return SlotState(None, self.confirmed, 0, 0)

    def owner(self) -> str:
        return self.owner_id

    def end(self) -> int:
        return STEP * self.transactions

    def close(self) -> None: ...

    def nudge(self) -> None: ...


class ScriptedChanges:
    """A connection: its messages, and then its loss or silence. It confirms only when the feed ends."""

    def __init__(self, source: ScriptedPostgres, start: int) -> None:
        first = source.confirmed if source.resends else max(start, source.confirmed)
        numbers = [n for n in range(1, source.transactions + 1) if STEP * n > first]
        self._lost = source.connections in source.losses
        if self._lost:
            numbers = numbers[: source.losses[source.connections]]
        source.connections += 1
        source.sent += len(numbers)
        self._source = source
        self._messages = [relation(), *(message for number in numbers for message in transaction(number))]
        self.end = source.end()

    def read(self, seconds: float) -> bytes | None:
        if self._messages:
            return self._messages.pop(0)
        if self._lost:
            raise Unavailable("PostgreSQL: the connection is lost", reason="SOURCE_UNAVAILABLE")
        return None

    def confirm(self, lsn: int, force: bool = False) -> None:
        if force:
            self._source.confirmed = lsn

    def close(self) -> None: ...


@pytest.mark.seeded("a change applied twice after a reconnect")
@pytest.mark.parametrize("resends", swept([True, False], fast=1))
def test_transactions_that_come_again_after_a_lost_connection_are_applied_once(
    client: Client, monkeypatch: pytest.MonkeyPatch, resends: bool
) -> None:
    monkeypatch.setattr("psoup_cdc.replication.Changes", ScriptedChanges)
    name = f"feed_{resends}"
    client.execute(f"CREATE TABLE {name} (k BIGINT, v BIGINT, PRIMARY KEY (k))")
    target = TargetTable.of(client.describe(name))
    producer = producer_name(name)
    with client.producer(name, name=producer, epoch=1) as first:
        first.push([], position=text_of(1).encode())  # the end of the first copy
    source = ScriptedPostgres(target.stream_id, 6, {0: 3, 1: 5, 3: 2}, resends)
    start = Start(target, SOURCE, producer, ())
    fake: Any = source
    for more in (0, 4):  # the second feed is a process that begins after the first one has ended
        source.transactions += more
        TableFeed(client, fake, start, until_now=True, patience=20).run()
        total = source.transactions
        answer = again(client.ask, f"SELECT k, v FROM {name} ORDER BY k").to_arrow()
        newest = [max(n for n in range(1, total + 1) if n % KEYS == key) for key in range(KEYS)]
        assert answer.to_pydict() == {"k": list(range(KEYS)), "v": newest}
        assert client.describe(name).next_tuple_id == total, "each change is one entry"
        position = client.position(name, producer)
        assert (position.source, position.number) == (text_of(STEP * total).encode(), 1 + total)
    assert source.connections == 5
    assert (source.sent > source.transactions) == resends
