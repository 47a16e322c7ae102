"""Tokens of copies of tables. They have the next tuple ID: the client knows which versions had ended by then.

A table forgets a deletion after its DELETED FOR. So a token is replaced long before that, and an older one is reset.
"""

from __future__ import annotations

from psoup.answer.copies.rows_since import Since
from psoup.answer.copies.versions_since import is_too_old
from psoup.published.records import NO_CLAUSE, QueryRecord
from psoup.published.snapshot import Snapshot
from psoup_proto.v1 import sync_pb2
from psoup_service.sync.tokens import ClientRows

_RENEWED = 0.5
"""The age at which a token is replaced although nothing has changed, as a share of DELETED FOR."""


def remembered(
    snapshot: Snapshot, record: QueryRecord, rows: ClientRows, reset: sync_pb2.Reset.ValueType, now: int
) -> tuple[ClientRows, sync_pb2.Reset.ValueType]:
    """The rows that a client holds, and the reason for a reset. A client with a token that is too old holds nothing.

    `rows`, `reset`: as the token says. `now`: the clock.
    """
    if record.sqc_id == NO_CLAUSE or rows.next_id is None:
        return rows, reset
    if is_too_old(snapshot.by_id[record.stream_id], rows.next_id, now):
        return ClientRows(rows.query_id, rows.window), sync_pb2.RESET_TOO_OLD
    return rows, reset


def rows_after(rows: ClientRows, changes: Since) -> ClientRows:
    """The rows that a client holds after a change."""
    view = changes.search.view
    next_id = None if view.spec.table is None else view.next_id
    return ClientRows(rows.query_id, rows.window, changes.have, next_id=next_id)


def is_renewed(rows: ClientRows, changes: Since, now: int) -> bool:
    """Whether a change without rows replaces the token. `now`: the clock."""
    return rows.next_id is not None and is_too_old(changes.search.view, rows.next_id, now, _RENEWED)
