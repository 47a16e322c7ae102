"""Positions of followers: places in a stream, as signed text that only the service reads.

    "p1-" base64( key | incarnation | life | sequence | stream | next tuple ID | last query told | signature )
                   1      4           8       8        8           8              8               16 bytes

A position grants no rights; those come from the call. The signature, with the keys of tokens of copies, reveals
damaged and forged positions. The tenant is signed, too. A position of other data, or of tuples that have left the
stream, is lost: its follower goes on at the oldest tuple that is kept.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import struct

from psoup.answer.follow.kept_entries import FollowPlace, kept_from, oldest_place
from psoup.errors import InvalidInput
from psoup.phrases import counted
from psoup.published.snapshot import Snapshot, StreamView
from psoup_proto.v1 import follow_pb2
from psoup_service.host.standby_host import behind
from psoup_service.sync.lives import LIFE_BYTES
from psoup_service.sync.tokens import Tokens

START = "start"
"""Stands for the oldest tuple that is kept, in place of a position."""

_FORM = re.compile(r"p([0-9]{1,9})-([A-Za-z0-9_-]{1,190})", re.ASCII)
_FORMAT = 1
_BODY = struct.Struct(f"<B4s{LIFE_BYTES}sqqqq")
_SIGNATURE = 16
_SHOWN = 40
_PURPOSE = b"psoup position\0"
"""The beginning of the signed bytes. So a token of a copy is never a valid position."""


class PositionLost(Exception):
    """The error for a position that cannot be continued. `reset`: what the client is told."""

    def __init__(self, reset: follow_pb2.FollowReset) -> None:
        super().__init__(reset.message)
        self.reset = reset


class Positions:
    """Writes and reads the positions for the data of one store. Any thread may call it."""

    def __init__(self, tokens: Tokens) -> None:
        """`tokens`: the tokens of copies of the same data, with their keys and lives."""
        self._tokens = tokens

    def write(self, place: FollowPlace, stream_id: int, tenant: str, sequence: int) -> str:
        """Write a place in a stream as of the event `sequence`, for a client of `tenant`."""
        tokens = self._tokens
        number, key = next(iter(tokens.keys.items()))
        body = _BODY.pack(number, tokens.incarnation, tokens.lives.present, sequence, stream_id, *place)
        signed = body + _signature(key, tenant, body)
        return f"p{_FORMAT}-{base64.urlsafe_b64encode(signed).decode().rstrip('=')}"

    def read(self, text: str, tenant: str, snapshot: Snapshot, view: StreamView, now: int) -> FollowPlace:
        """Read a position in the stream of `view`.

        Raises PositionLost. Raises InvalidInput: POSITION_INVALID for a damaged or forged position,
        POSITION_OF_ANOTHER_STREAM for a position in a stream of another name.
        """
        if text == START:
            return oldest_place(view, now)
        parts = _FORM.fullmatch(text)
        if parts is None:
            raise _invalid(text)
        if int(parts[1]) != _FORMAT:
            raise _lost("FORMAT", "it is of another version of PSoup", view, now)
        try:
            raw = base64.urlsafe_b64decode(parts[2] + "=" * (-len(parts[2]) % 4))
        except binascii.Error:
            raise _invalid(text) from None
        if len(raw) != _BODY.size + _SIGNATURE:
            raise _invalid(text)
        return self._verified(text, raw, tenant, snapshot, view, now)

    def _verified(
        self, text: str, raw: bytes, tenant: str, snapshot: Snapshot, view: StreamView, now: int
    ) -> FollowPlace:
        body, tokens = raw[: _BODY.size], self._tokens
        number, incarnation, life, sequence, stream_id, next_id, after = _BODY.unpack(body)
        if incarnation != tokens.incarnation:
            why = "it is of other data: a service in memory has started again, or a dump was restored"
            raise _lost("INCARNATION", why, view, now)
        if tokens.lives.may_come(life, sequence, snapshot.sequence):
            raise behind(snapshot.sequence, sequence)
        if not tokens.lives.knows(life):  # the number of its key may belong to another key now
            raise _lost("ROLLED_BACK", _PUT_BACK, view, now)
        key = tokens.keys.get(number)
        if key is None:
            raise _lost("KEY", "it was signed with a key that is not in use any more", view, now)
        if not hmac.compare_digest(raw[_BODY.size :], _signature(key, tenant, body)):
            raise _invalid(text)
        if stream_id != view.stream_id:
            other = snapshot.by_id.get(stream_id)
            if other is not None:
                raise InvalidInput(
                    f"the position is one in stream {other.spec.name!r}, not in {view.spec.name!r}; give the position"
                    " of this stream, or leave it out to begin now",
                    reason="POSITION_OF_ANOTHER_STREAM",
                    field="after",
                )
            why = f"stream {view.spec.name!r} was dropped, and this is another stream of that name"
            raise _lost("OTHER_STREAM", why, view, now)
        if not tokens.lives.has(life, sequence, snapshot.sequence) or next_id > view.next_id:
            raise _lost("ROLLED_BACK", _PUT_BACK, view, now, next_id)
        return kept(FollowPlace(next_id, after), view, now)


_PUT_BACK = "the data directory was put back to an earlier state, and it lacks events that the position tells of"


def kept(place: FollowPlace, view: StreamView, now: int) -> FollowPlace:
    """The place, if the stream still keeps the tuple there. Raises PositionLost, with the number of missed tuples."""
    oldest = kept_from(view, place, now)
    if oldest == place:
        return place
    missed = oldest.next_id - place.next_id
    gone = f"{counted(missed, noun_of(view))} after it, from ID {place.next_id:,} on,"
    why = f"{gone} {'is' if missed == 1 else 'are'} not kept"
    raise _lost("NOT_KEPT", why, view, now, place.next_id, missed)


def noun_of(view: StreamView) -> str:
    """The word for what a follower is told of: a tuple of a stream, or an entry of a table."""
    return "tuple" if view.spec.table is None else "entry"


def _lost(
    reason: str, why: str, view: StreamView, now: int, from_id: int | None = None, missed: int | None = None
) -> PositionLost:
    oldest = oldest_place(view, now).next_id
    return PositionLost(
        follow_pb2.FollowReset(
            reason=follow_pb2.FollowResetReason.Value(f"FOLLOW_RESET_REASON_{reason}"),
            message=f"the position in {view.spec.noun} {view.spec.name!r} cannot be continued: {why}; the oldest"
            f" {noun_of(view)} that is kept has ID {oldest:,}",
            missed=missed,
            from_id=from_id,
            first_id=oldest,
        )
    )


def _invalid(text: str) -> InvalidInput:
    return InvalidInput(
        f"{text[:_SHOWN]!r} is not a position that this service gave: give the position of a batch as it is, 'start'"
        " for the oldest tuple that is kept, or leave it out to begin now",
        reason="POSITION_INVALID",
        field="after",
    )


def _signature(key: bytes, tenant: str, body: bytes) -> bytes:
    return hmac.digest(key, _PURPOSE + tenant.encode() + b"\0" + body, "sha256")[:_SIGNATURE]
