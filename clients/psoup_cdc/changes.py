"""The transactions of a slot, as PostgreSQL sends them.

    read ──> payload of a message | None after a pause without one
    confirm(lsn)      everything before is safe: PostgreSQL may drop its log up to there

PostgreSQL sends a transaction when it has committed, and transactions in the order of their commits. Where everything
that came is confirmed, psycopg2 confirms the log of other tables, too.
"""

from __future__ import annotations

import select
import time
from typing import Any

import psycopg2

from psoup_cdc.lsn import text_of
from psoup_cdc.source import PostgresSource, error_of, naming_errors

GATHER_SECONDS = 0.001
"""The seconds in which messages gather after the first one. Else a busy server wakes the reader for each of them."""

STATUS_SECONDS = 1.0
"""The least seconds between two confirmations."""


class Changes:
    """An open stream of changes behind `start`, an LSN. Close it at the end."""

    def __init__(self, source: PostgresSource, start: int) -> None:
        self._connection = source.connect(replication=True)
        self._cursor: Any = self._connection.cursor()
        self._confirmed = start
        self._sent = 0.0
        options = {"proto_version": "1", "publication_names": f'"{source.name}"'}
        try:
            with naming_errors():
                self._cursor.start_replication(
                    slot_name=source.name, start_lsn=text_of(start), options=options, decode=False, status_interval=5
                )
        except BaseException:
            self._connection.close()
            raise

    def read(self, seconds: float) -> bytes | None:
        """The next message. Returns None if none came in `seconds`. Raises Unavailable if the connection is lost."""
        try:  # not `naming_errors`, which would take as long as the read
            message = self._cursor.read_message()
            if message is None:
                if select.select([self._cursor], [], [], seconds)[0]:
                    time.sleep(GATHER_SECONDS)
                message = self._cursor.read_message()
        except psycopg2.Error as problem:
            raise error_of(problem) from problem
        return None if message is None else message.payload

    @property
    def end(self) -> int:
        """The LSN up to which PostgreSQL has sent all changes, if no message waits."""
        return int(self._cursor.wal_end)

    def confirm(self, lsn: int, force: bool = False) -> None:
        """Confirm everything before an LSN. Messages go at most once a second, unless `force` is set."""
        self._confirmed = max(self._confirmed, lsn)
        now = time.monotonic()
        if force or now - self._sent >= STATUS_SECONDS:
            self._sent = now
            with naming_errors():
                self._cursor.send_feedback(write_lsn=self._confirmed, flush_lsn=self._confirmed, force=True)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
