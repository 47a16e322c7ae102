"""The session of a connection: it reads statements by their first words, and keeps settings, transaction and cursors.

text ─ first word ─> a statement ─> calls of the contract, settings, transactions
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from psoup.errors import InvalidInput, ResourceExhausted
from psoup.sql import first_word
from psoup_service.host.reads.held_snapshots import HeldSnapshot
from psoup_service.pg.account import Account
from psoup_service.pg.calls import Calls
from psoup_service.pg.contract import Argument, Column, Description, Sink, Statement
from psoup_service.pg.cursors.cursor_steps import Readable
from psoup_service.pg.cursors.cursors import Cursors
from psoup_service.pg.statement_texts import QUERY_WORDS, is_empty, statements_of
from psoup_service.pg.statements.catalogue_reads import CatalogueReads, Catalogues, Facts
from psoup_service.pg.statements.copies import Copied, read_copy
from psoup_service.pg.statements.explain import read_explain
from psoup_service.pg.statements.prepared_statements import PreparedStatements
from psoup_service.pg.statements.reads import Reads
from psoup_service.pg.statements.refusals import refused
from psoup_service.pg.statements.selects import Select
from psoup_service.pg.statements.settings import SessionSettings
from psoup_service.pg.statements.settings_statements import read_discard, read_reset, read_set, read_show
from psoup_service.pg.statements.subscriptions import Listening
from psoup_service.pg.statements.transactions import Transaction, Transactions
from psoup_service.pg.statements.utility import table
from psoup_service.pg.statements.words import Words
from psoup_service.pg.statements.writing.inserts import read_insert
from psoup_service.pg.statements.writing.row_buffer import RowBuffer
from psoup_service.pg.statements.writing.writes import Writes
from psoup_service.pg.trace_comments import traceparent_of
from psoup_service.pg.values.zones import Zone

_ENDS = frozenset({"COMMIT", "END", "ROLLBACK", "ABORT"})
"""First words of statements that run after a failure in a transaction."""

_OVER_STREAMS = re.compile(r"\bFROM\b(?!\s*(?:\(|[\w.]+\s*\())", re.IGNORECASE)
"""A name behind FROM that is not a function."""
_OF_CATALOGUE = re.compile(r"\bpg_|\binformation_schema\b|\b(?:generate_series|unnest)\b", re.IGNORECASE)
_UNLOCK = re.compile(r"\s*SELECT\s+(?:pg_catalog\.)?pg_advisory_unlock_all\(\)\s*;?\s*", re.IGNORECASE)


class Client(Protocol):
    """The client of a session: see `contract.Announcer`."""

    @property
    def tenant(self) -> str:
        """The tenant of its token."""
        ...

    @property
    def account(self) -> Account:
        """The account of its connection."""
        ...

    @property
    def number(self) -> int:
        """The number of its connection, as a cancel request names it."""
        ...

    def report(self, name: str, value: str) -> None:
        """Tell the client the value of a setting."""
        ...

    def forget(self, name: str | None) -> bool:
        """Close prepared statements of the extended protocol."""
        ...

    def portal(self, name: str) -> Readable | None:
        """The open portal of the extended protocol with a name; None if there is none."""
        ...

    async def notify(self, channel: str, payload: Callable[[], str]) -> None:
        """Send a notification."""
        ...


class PgSession:
    """See `contract.Session`. `client`: is sent the settings that change."""

    def __init__(self, calls: Calls, options: dict[str, str], client: Client, catalogues: Catalogues) -> None:
        """Raises InvalidInput for a wrong setting among `options`."""
        self.settings = SessionSettings(options)
        self._client = client
        self._catalogue = CatalogueReads(catalogues, calls, client.tenant, options, self.settings, self._facts)
        self._calls = calls
        account = client.account
        self._cursors = Cursors(self._query, self._is_within, client.portal, account, catalogues.moment)
        self._transactions = Transactions(
            self.settings,
            self._report,
            lambda: Transaction(RowBuffer(calls, account), HeldSnapshot(client.tenant)),
            self._read_from,
            self._cursors,
        )
        self._prepared = PreparedStatements(self.read, client.forget)
        self._reads = Reads(calls, self.settings, catalogues.now)
        self._writes = Writes(calls, self.settings, account, self._waiting, self._reads.present)
        self._listening = Listening(calls, client, account)
        transactions, settings = self._transactions, self.settings
        self._readers: dict[str, Callable[[Words], Statement]] = {
            "BEGIN": lambda words: transactions.read_begin(words, "BEGIN"),
            "START": lambda words: transactions.read_begin(words, "START TRANSACTION"),
            "COMMIT": transactions.read_commit,
            "END": transactions.read_commit,
            "ROLLBACK": transactions.read_rollback,
            "ABORT": transactions.read_rollback,
            "SAVEPOINT": transactions.read_savepoint,
            "RELEASE": transactions.read_release,
            "SET": lambda words: read_set(words, settings, self._report, self._is_within),
            "SHOW": lambda words: read_show(words, settings),
            "RESET": lambda words: read_reset(words, settings, self._report),
            "DISCARD": lambda words: read_discard(words, self._discard_all),
            "DEALLOCATE": self._prepared.read_deallocate,
            "FETCH": self._cursors.read_fetch,
            "MOVE": self._cursors.read_move,
            "CLOSE": self._cursors.read_close,
            "LISTEN": self._listening.read_listen,
            "UNLISTEN": self._listening.read_unlisten,
        }

    @property
    def status(self) -> bytes:
        """See `contract.Session`."""
        return self._transactions.status

    @property
    def zone(self) -> Zone:
        """See `contract.Session`."""
        return self.settings.zone

    @property
    def listening(self) -> bool:
        """See `contract.Session`."""
        return bool(self._listening)

    def reported(self) -> Mapping[str, str]:
        """See `contract.Session`."""
        return self.settings.reported()

    def cursor(self, name: str) -> Sequence[Column] | None:
        """See `contract.Session`."""
        return self._cursors.columns(name)

    def split(self, text: str) -> list[str]:
        """See `contract.Session`."""
        return statements_of(text)

    async def read(self, text: str, types: Sequence[int] = ()) -> Statement | None:
        """See `contract.Session`."""
        word = first_word(text)
        if not word and is_empty(text):
            return None
        self._calls.trace = traceparent_of(text)
        if word not in _ENDS:
            self._transactions.check()
        if word in QUERY_WORDS:
            return _Guarded(self._transactions, self.settings, await self._query(text, types))
        if word == "INSERT":
            return _Guarded(self._transactions, self.settings, await read_insert(self._writes, text, types))
        if word == "COPY":
            copying = read_copy(self._writes, text, self._copied)
            return _Guarded(self._transactions, self.settings, copying)
        if word == "DECLARE":
            declared = await self._cursors.read_declare(_after(word, text), types)
            return _Guarded(self._transactions, self.settings, declared)
        if word == "EXPLAIN":
            plan = await read_explain(_after(word, text), lambda part: self._query(part, types))
            return _Guarded(self._transactions, self.settings, plan)
        if word == "PREPARE":
            return await self._prepared.read_prepare(Words(text))
        if word == "EXECUTE":
            return self._prepared.read_execute(Words(text))
        reader = self._readers.get(word)
        if reader is None:
            raise refused(text)
        statement = reader(_after(word, text))
        return statement if word in _ENDS else _Guarded(self._transactions, self.settings, statement)

    def failed(self) -> None:
        """See `contract.Session`."""
        self._transactions.fail()

    async def close(self) -> None:
        """See `contract.Session`."""
        self._listening.end()
        try:
            await self._cursors.close_all()
        finally:
            self._catalogue.close()
            await self._transactions.abandon()

    async def _query(self, text: str, types: Sequence[int]) -> Statement:
        """A SELECT over streams and views, or over the catalogue."""
        if _OVER_STREAMS.search(text) is not None and _OF_CATALOGUE.search(text) is None:
            return Select(self._reads, text, types)
        if _UNLOCK.fullmatch(text):
            return table("SELECT 1", ("pg_advisory_unlock_all",), lambda: [("",)])
        return await self._catalogue.statement(text, types) or Select(self._reads, text, types)

    def _is_within(self) -> bool:
        """Whether a transaction is under way."""
        return self._transactions.current is not None

    def _facts(self) -> Facts:
        """The facts of the session that the catalogue shows."""
        return {"pid": str(self._client.number), "cursors": self._cursors.listed()}

    def _copied(self, text: str) -> Copied:
        return Copied(lambda: self._query(text, ()))

    def _read_from(self, moment: HeldSnapshot | None) -> None:
        self._calls.moment = moment

    def _waiting(self) -> RowBuffer | None:
        """The rows that wait for COMMIT; None outside of a transaction."""
        current = self._transactions.current
        return None if current is None else current.rows

    async def _discard_all(self) -> None:
        if self._is_within():
            raise InvalidInput("DISCARD ALL cannot run inside a transaction block", reason="ACTIVE_TRANSACTION")
        before = self.settings.reported()
        self.settings.reset_all()
        self._report(before)
        self._prepared.forget_all()
        self._listening.end()
        await self._cursors.close_all()

    def _report(self, before: dict[str, str]) -> None:
        """Tell the client of the settings that differ from those before."""
        for name, value in self.settings.reported().items():
            if before[name] != value:
                self._client.report(name, value)


class _Guarded:
    """A statement that runs only if no statement of its transaction has failed, and at most for `statement_timeout`."""

    def __init__(self, transactions: Transactions, settings: SessionSettings, statement: Statement) -> None:
        self._transactions = transactions
        self._settings = settings
        self._statement = statement

    async def describe(self) -> Description:
        """See `contract.Statement`."""
        self._transactions.check()
        return await self._statement.describe()

    async def run(self, arguments: Sequence[Argument], sink: Sink) -> str:
        """See `contract.Statement`."""
        self._transactions.check()
        seconds = self._settings.seconds("statement_timeout")
        if seconds is None:
            return await self._statement.run(arguments, sink)
        try:
            async with asyncio.timeout(seconds) as limit:
                return await self._statement.run(arguments, sink)
        except TimeoutError:
            if not limit.expired():
                raise
        raise ResourceExhausted("canceling statement due to statement timeout", reason="DEADLINE_EXCEEDED")


def _after(word: str, text: str) -> Words:
    """The words of a text after its first word."""
    words = Words(text)
    words.accept(word)
    return words
