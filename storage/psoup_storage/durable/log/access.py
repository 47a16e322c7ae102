"""Access tokens in the log: rows of the kinds `token` and `revoke`, and the removal of outdated ones.

The transaction of a revocation deletes the row of the revoked token, and all earlier revocations. So the log has the
valid tokens and at most one revocation.
"""

from __future__ import annotations

from typing import Any

import apsw

from psoup.events.access import AccessToken, TokenIssued, TokenRevoked
from psoup_storage.durable.log.rows import LogRow, new_row
from psoup_storage.durable.sqlite.database import Database

_TOKENS = "SELECT 1 FROM log WHERE kind = 'token' LIMIT 1"
"""Whether there is a token."""
_MARKED = "SELECT 1 FROM meta WHERE name = 'guarded'"
"""Whether there ever was a token. From then on every caller needs one, even if tokens are lost."""
_MARK = "INSERT OR IGNORE INTO meta (name, value) VALUES ('guarded', '1')"
_REVOKED = "DELETE FROM log WHERE kind = 'token' AND body ->> 'id' = ?"
_EARLIER = "DELETE FROM log WHERE kind = 'revoke' AND sequence < ?"


def encode_access(event: TokenIssued | TokenRevoked) -> LogRow:
    """The row of an event."""
    if isinstance(event, TokenRevoked):
        return new_row(event.sequence, "revoke", 0, id=event.token_id, time=event.time)
    token = event.token
    facts = {"id": token.token_id, "name": token.name, "digest": token.digest.hex(), "tenant": token.tenant}
    times = {"time": token.issued, "expires": token.expires}
    return new_row(event.sequence, "token", 0, roles=token.roles, streams=token.streams, **facts, **times)


def decode_access(row: LogRow, facts: dict[str, Any]) -> TokenIssued | TokenRevoked:
    """The event of a row with the body `facts`. Raises KeyError and ValueError for a damaged one."""
    if row.kind == "revoke":
        return TokenRevoked(row.sequence, facts["id"], facts["time"])
    token = AccessToken(
        facts["id"],
        facts["name"],
        tuple(facts["roles"]),
        bytes.fromhex(facts["digest"]),
        facts["tenant"],
        tuple(facts["streams"]),
        facts["time"],
        facts["expires"],
    )
    return TokenIssued(row.sequence, token)


def forget_revoked(connection: apsw.Connection, event: TokenRevoked) -> None:
    """Forget a token that an event revokes, and earlier revocations. O(tokens)."""
    connection.execute(_REVOKED, (event.token_id,))
    connection.execute(_EARLIER, (event.sequence,))


def note_issued(connection: apsw.Connection) -> None:
    """Note in `meta` that there was a token. Called in the transaction of the token's event."""
    connection.execute(_MARK)


def guarded(database: Database) -> bool:
    """Whether there are tokens, or ever were."""
    return any(database.query(_MARKED)) or any(database.query(_TOKENS))
