"""A recharge: copies are brought up to date by priority, within limits of bytes and time.

due, greatest priority first ── wants with tokens ──> Sync ──> changes of the first k ──> each a transaction
         ^                                                           |
         '── those after them, those not complete, those registered ─'     until bytes or seconds are spent
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from psoup_client import Client
from psoup_client.copies import REASONS, changes
from psoup_client.errors import DeadlineExceeded, NotFound, PSoupError, from_failure
from psoup_proto.v1 import sync_pb2
from psoup_recharge.entry import Entry

if TYPE_CHECKING:
    from psoup_recharge.store import Store

_WANTS = 200
_REPLY_BYTES = 256 * 1024
"""Bytes of rows in a reply: small ones reach the store one by one, also over a slow line."""


@dataclass(frozen=True, slots=True)
class Recharged:
    """What became of one copy: rows that `came` and that are `gone`, `size` bytes. `complete`: it is the answer now.

    `asked` is false if bytes or seconds were spent before its turn. `reset`: why its rows of before were forgotten.
    """

    name: str
    asked: bool = False
    came: int = 0
    gone: int = 0
    size: int = 0
    complete: bool = False
    reset: str = ""
    error: PSoupError | None = None


@dataclass(frozen=True, slots=True)
class Recharge:
    """What a recharge did. `received`: bytes; `fresh`: names that were fresh enough."""

    copies: tuple[Recharged, ...]
    received: int
    seconds: float
    fresh: tuple[str, ...] = ()

    @property
    def left_out(self) -> list[str]:
        """The names of copies that were not asked for, or are not complete, as bytes or seconds were spent."""
        return [copy.name for copy in self.copies if copy.error is None and not copy.complete]


def recharge(
    store: Store, client: Client, *, max_bytes: int | None, max_seconds: float | None, only: Sequence[str]
) -> Recharge:
    """Bring the copies of a store up to date; see `Store.recharge`."""
    started, received = time.monotonic(), 0
    wanted = [store.entry(name) for name in only] if only else store.entries()
    due = [entry for entry in wanted if only or not _is_fresh(entry)]
    done = {entry.name: Recharged(entry.name) for entry in due}
    open_, registered = list(due), set[str]()
    while open_ and (max_bytes is None or received < max_bytes):
        left = None if max_seconds is None else max_seconds - (time.monotonic() - started)
        if left is not None and left <= 0:
            break
        room = _REPLY_BYTES if max_bytes is None else min(max_bytes - received, _REPLY_BYTES)
        some = open_[:_WANTS]
        wants = [store.want(entry) for entry in some]
        try:
            body, size = changes(client, wants, room, timeout=left)
        except DeadlineExceeded:
            if left is None:
                raise
            break
        received += size
        again = list[Entry]()
        for entry, want, outcome in zip(some, wants, body.outcomes, strict=False):
            share = size * outcome.ByteSize() // max(body.ByteSize(), 1)
            after = _applied(store, client, entry, want, outcome, body.streams, registered)
            done[entry.name] = _after(done[entry.name], replace(after, size=share))
            if after.error is None and not after.complete:
                again.append(entry)
        open_ = [*again, *open_[len(body.outcomes) :]]
    for entry in due:
        told = done[entry.name]
        if told.asked:
            store.note(
                entry, told.size, told.came, told.gone, told.reset, "" if told.error is None else str(told.error)
            )
    fresh = tuple(entry.name for entry in wanted if entry.name not in done)
    return Recharge(tuple(done.values()), received, time.monotonic() - started, fresh)


def _is_fresh(entry: Entry) -> bool:
    """Whether a copy was synchronised so lately that it need not be asked for."""
    if entry.synced is None or not entry.complete or entry.error or not entry.fresh:
        return False
    age = (dt.datetime.now(dt.UTC) - entry.synced).total_seconds()
    return 0 <= age < entry.fresh  # a clock that was put back tells nothing


def _applied(
    store: Store,
    client: Client,
    entry: Entry,
    want: sync_pb2.Want,
    outcome: sync_pb2.SyncOutcome,
    streams: Sequence[sync_pb2.StreamTime],
    registered: set[str],
) -> Recharged:
    """Apply one outcome. A statement whose query is gone, or was never there, is registered, once, and asked again."""
    if outcome.WhichOneof("outcome") == "failure":
        error = from_failure(outcome.failure)
        lost = isinstance(error, NotFound) or error.reason == "TOKEN_INVALID"
        if lost and want.token:
            store.start_anew(entry)
            return Recharged(entry.name, asked=True)
        if isinstance(error, NotFound) and entry.sql and entry.name not in registered:
            registered.add(entry.name)
            try:
                client.register(entry.sql, key=store.key_of(entry))
            except PSoupError as problem:
                return Recharged(entry.name, asked=True, error=problem)
            return Recharged(entry.name, asked=True)
        return Recharged(entry.name, asked=True, error=error)
    change = outcome.change
    gone = store.apply(entry, want, change, streams)
    if gone is None:  # another process was faster: ask with the token that is there now
        return Recharged(entry.name, asked=True)
    reset = REASONS.get(change.reset, "other")
    return Recharged(entry.name, True, change.rows, gone, 0, change.complete, reset)


def _after(first: Recharged, later: Recharged) -> Recharged:
    """What became of a copy, and then."""
    return replace(
        later,
        came=first.came + later.came,
        gone=first.gone + later.gone,
        size=first.size + later.size,
        reset=first.reset or later.reset,
    )
