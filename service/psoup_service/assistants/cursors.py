"""Cursors of events: positions in the changes of an answer, as opaque text.

    time of the service, 8 bytes | token of Sync        in base64url

The time serves only `maxAgeMs`, the age of a cursor, so it needs no signature. The token has one.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from psoup.errors import InvalidInput
from psoup_service.assistants.tool import token_bytes, token_text

_TIME = struct.Struct("<q")
_FIELD = "cursor"


class Cursor(NamedTuple):
    """A position. `time`: microseconds since 1970."""

    time: int
    token: bytes

    def text(self) -> str:
        """The cursor as text, for a client."""
        return token_text(_TIME.pack(self.time) + self.token)


def read_cursor(text: str) -> Cursor:
    """The cursor in a text. Raises InvalidInput."""
    raw = token_bytes(text, _FIELD)
    if len(raw) < _TIME.size:
        raise InvalidInput(
            "cursor was not made by this service; leave it out to begin now", reason="TOKEN_INVALID", field=_FIELD
        )
    return Cursor(_TIME.unpack_from(raw)[0], raw[_TIME.size :])
