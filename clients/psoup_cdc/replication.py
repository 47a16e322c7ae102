"""A table of PostgreSQL that a table of PSoup follows: the first rows, then each transaction as one batch.

    start     no position: a slot, the first copy ──┐
              a position ───────────────────────────┴─> transactions behind it
    commit    rows ──> producer, position = the end LSN of the transaction
    replies   the LSN is confirmed, and PostgreSQL may drop its log up to there

The position lies in the same event as the rows. So a feed that is killed, with PostgreSQL or the service, repeats
nothing and loses nothing. A lost connection is opened again, for at most `patience` seconds.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa

from psoup_cdc.changes import Changes
from psoup_cdc.first_copy import Progress, copy
from psoup_cdc.lsn import text_of
from psoup_cdc.pgoutput import CHANGES, Begin, Commit, RelationMessage, Truncate, decode
from psoup_cdc.relations import Relations
from psoup_cdc.source import PostgresSource
from psoup_cdc.start import Start
from psoup_cdc.target import TargetTable, present_keys, present_versions
from psoup_cdc.transaction import Transaction
from psoup_client import Client, DeadlineExceeded, Producer, PSoupError
from psoup_client.channel.patience import Patience, passes

T = TypeVar("T")

PATIENCE_SECONDS = 600.0
"""The seconds for which a lost connection is opened again."""

PAUSE_SECONDS = 0.2
"""The longest wait for a message. Replies of the service are looked at after it."""

NUDGE_SECONDS = 2.0
"""The seconds after which a feed up to now moves the log on. The end of the log may lie between two records."""

REMEMBER_SECONDS = 3_600.0
"""The seconds without changes after which the position is recorded anew, so that the service does not forget it."""


@dataclass(slots=True)
class Figures:
    """The outcome so far: transactions and their changes, and the recorded LSN. `copied`: rows of the first copy."""

    transactions: int = 0
    changes: int = 0
    copied: int | None = None
    position: int = 0


class TableFeed:
    """A feed of one table. `tell`: called after each transaction and in pauses, with the figures so far.

    `until_now`: end when the changes up to the call of `run` are in. `patience`: seconds.
    """

    def __init__(
        self,
        client: Client,
        source: PostgresSource,
        start: Start,
        *,
        until_now: bool = False,
        patience: float = PATIENCE_SECONDS,
        tell: Callable[[Figures], None] | None = None,
    ) -> None:
        self.figures = Figures()
        self._client = client
        self._source = source
        self._start = start
        self._until_now = until_now
        self._patience = Patience(patience, strict=True)
        self._seconds = patience
        self._tell = tell or (lambda _: None)

    @property
    def source_name(self) -> str:
        """The table of PostgreSQL, with its schema."""
        return str(self._start.table)

    @property
    def target(self) -> TargetTable:
        """The table of PSoup."""
        return self._start.target

    def prepare(self, progress: Progress | None = None) -> int:
        """Copy the first rows, if nothing is recorded. Returns the recorded LSN. Raises PSoupError."""
        return self._insist(lambda: self._position(progress))

    def run(self) -> Figures:
        """Follow the table without end, or up to now. Raises PSoupError for a change that it cannot follow."""
        end = self._source.end() if self._until_now else None
        self._insist(lambda: self._follow(self._position(None), end))
        return self.figures

    def _insist(self, attempt: Callable[[], T]) -> T:
        """Repeat an attempt while one of the two sides is away, and after the service lost batches in a takeover."""
        while True:
            try:
                return attempt()
            except PSoupError as problem:
                if not passes(problem) and problem.reason not in ("UNKNOWN_STAGE", "BATCHES_LOST"):
                    raise
                self._source.close()
                time.sleep(self._patience.next(problem))

    def _position(self, progress: Progress | None) -> int:
        """The recorded LSN, after the first copy if there was none."""
        start = self._start
        lsn = start.recorded(self._client)
        if lsn is None:
            start.prepare_copy(self._client, self._source)
            lsn, self.figures.copied = copy(
                self._client, self._source, start.table, start.target, start.producer, progress
            )
        else:
            start.check_slot(self._source, lsn)
        self.figures.position = lsn
        return lsn

    def _follow(self, lsn: int, end: int | None) -> None:
        at = self._client.position(self.target.name, self._start.producer)
        producer = self._client.producer(
            self.target.name,
            name=self._start.producer,
            epoch=at.epoch,
            number=at.number,
            retry_seconds=self._seconds,
        )
        try:
            changes = Changes(self._source, lsn)
            try:
                _Stream(self, producer, changes, lsn, at.number).run(end)
            finally:
                changes.close()
        except PSoupError:
            with suppress(PSoupError):  # all transactions before the error are to be in
                producer.flush(self._seconds)
            raise
        finally:
            producer.close(flush=False)

    # The parts that a stream uses --------------------------------------------------------------------

    def transaction(self, producer: Producer) -> Transaction:
        """Begin a transaction."""
        return Transaction(self.target, _PresentRows(self._client, self.target, producer))

    def relations(self) -> Relations:
        """Begin with the definition of the source at the start."""
        return Relations(self.target, self._start.table)

    def nudge(self) -> None:
        """Move the log of PostgreSQL on, so that it sends its end."""
        self._source.nudge()

    def note(self, lsn: int) -> None:
        """Note a recorded LSN."""
        self.figures.position = max(self.figures.position, lsn)
        self._patience.reset()
        self._tell(self.figures)


@dataclass(slots=True)
class _PresentRows:
    """The table as it is after all rows of a producer."""

    client: Client
    target: TargetTable
    producer: Producer

    def versions(self, keys: set[tuple[Any, ...]]) -> dict[tuple[Any, ...], tuple[bytes | None, ...]]:
        self.producer.flush()
        return present_versions(self.client, self.target, keys)

    def keys(self) -> pa.Table:
        self.producer.flush()
        return present_keys(self.client, self.target)


@dataclass(slots=True)
class _Stream:
    """The transactions of one connection, on their way into a producer. `recorded`: the LSN of the last reply."""

    feed: TableFeed
    producer: Producer
    changes: Changes
    recorded: int
    number: int
    sent: deque[tuple[int, int]] = field(default_factory=deque)
    """The numbers of batches without a reply, each with the LSN behind it."""
    last: int = 0
    """The LSN behind the last batch."""
    touched: float = field(default_factory=time.monotonic)
    """The time of the last batch."""
    nudged: float = field(default_factory=time.monotonic)
    """The time of the last message that moved the log on."""

    def run(self, end: int | None) -> None:
        """Pass on transactions, without end, or until all up to `end` are recorded."""
        self.last = self.recorded
        relations, transaction = self.feed.relations(), None
        read, add = self.changes.read, relations.add
        pause = PAUSE_SECONDS if end is None else PAUSE_SECONDS / 10
        while True:
            payload = read(pause)
            if payload is not None and payload[0] in CHANGES:
                add(payload)
                continue
            if payload is None:
                if self._rest(transaction is None, end):
                    return
                continue
            message = decode(payload)
            if isinstance(message, Begin):
                transaction = self.feed.transaction(self.producer)
                relations.begin(transaction)
            elif isinstance(message, Commit):
                assert transaction is not None
                self._commit(transaction, message.end)
                transaction = None
            elif isinstance(message, RelationMessage):
                relations.describe(message)
            elif isinstance(message, Truncate):
                relations.truncate(message)

    def _commit(self, transaction: Transaction, end: int) -> None:
        """Send a transaction, unless the service has it. One without a change of the table only moves the position."""
        rows = transaction.table() if end > self.last else None
        if rows is not None and rows.num_rows:
            self._push(rows, end)
            self.feed.figures.transactions += 1
            self.feed.figures.changes += rows.num_rows
        self._note_replies()

    def _push(self, rows: pa.Table | list[Any], end: int) -> None:
        self.producer.push(rows, position=text_of(end).encode(), after=text_of(self.last).encode())
        self.sent.append((self.number, end))
        self.number += 1
        self.last, self.touched = end, time.monotonic()

    def _note_replies(self) -> None:
        acknowledged = self.producer.acknowledged
        while self.sent and self.sent[0][0] < acknowledged:
            self.recorded = self.sent.popleft()[1]
        self.changes.confirm(self.recorded)
        self.feed.note(self.recorded)

    def _rest(self, between: bool, end: int | None) -> bool:
        """Note replies while no change comes. Returns whether to end. `between`: whether no transaction is open."""
        with suppress(DeadlineExceeded):  # any other error ends the stream
            self.producer.flush(PAUSE_SECONDS)
        self._note_replies()
        if self.sent or not between:
            return False
        behind = self.changes.end
        if behind > self.recorded and time.monotonic() - self.touched > REMEMBER_SECONDS:
            self._push([], behind)
            return False
        done = end is not None and max(self.recorded, behind) >= end
        if done:
            self.changes.confirm(self.recorded, force=True)
        elif end is not None and time.monotonic() - self.nudged > NUDGE_SECONDS:
            self.feed.nudge()
            self.nudged = time.monotonic()
        return done
