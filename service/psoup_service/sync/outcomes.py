"""Outcomes of wants. A want names a query by ID, key or token, and gets a change or an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from psoup.errors import Internal, InvalidInput, PSoupError, ResourceExhausted
from psoup_proto.v1 import sync_pb2
from psoup_service.sync.changes import Copies
from psoup_service.sync.tokens import MOST_BYTES, query_in
from psoup_service.wire import convert

_WANTS = 1_000


def check_wants(wants: Sequence[sync_pb2.Want]) -> None:
    """Raise InvalidInput unless a call may have these wants."""
    if not 0 < len(wants) <= _WANTS:
        raise InvalidInput(f"wants has {len(wants):,} queries; it must be from 1 to {_WANTS:,}", field="wants")
    if any(len(want.token) > MOST_BYTES for want in wants):
        raise InvalidInput("a token is longer than this service makes them", reason="TOKEN_INVALID", field="token")


def outcome_of(
    want: sync_pb2.Want, copies: Copies, room: int, limit: int, refused: Callable[[PSoupError], None]
) -> sync_pb2.SyncOutcome | None:
    """The outcome of one want, in at most `room` bytes. None if `room` is too small but `limit` bytes would be enough.

    `refused`: called for each want that fails.
    """
    try:
        change = _change(want, copies, room, limit)
    except Internal:
        raise
    except PSoupError as error:
        refused(error)
        return sync_pb2.SyncOutcome(failure=convert.failure(_named(error, want, copies)))
    return None if change is None else sync_pb2.SyncOutcome(change=change)


def _named(error: PSoupError, want: sync_pb2.Want, copies: Copies) -> PSoupError:
    """The error of a want. For an answer that is too large it also names the query, because a call has many."""
    if error.reason != "ANSWER_TOO_LARGE":
        return error
    number = query_in(want.token)
    name = want.key or want.query_id or ("" if number is None else copies.ids.query(number))
    return ResourceExhausted(f"query {name!r}: {error.message}", reason=error.reason, **error.facts)


def _change(want: sync_pb2.Want, copies: Copies, room: int, limit: int) -> sync_pb2.Change | None:
    """The change for one want; errors name the query as the client did."""
    for name, value in (("max_rows", want.max_rows), ("max_bytes", want.max_bytes)):
        if value < 0:
            raise InvalidInput(f"{name} is {value}; it must not be negative", field=name)
    ids, query_id = copies.ids, None
    if want.query_id and want.key:
        raise InvalidInput("give a query_id or a key, not both", field="key")
    if want.key:
        query_id = copies.snapshot.query_with(want.key, copies.tenant).query_id
    elif want.query_id:
        query_id = ids.read_query(want.query_id)
    window = convert.one_window(want.window) if want.window else None
    change = copies.change(query_id, want, window, room, limit)
    if change is not None and change.reset and want.key and query_id is not None:
        change.query_id = ids.query(query_id)
    return change
