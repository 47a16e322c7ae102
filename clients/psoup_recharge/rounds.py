"""A recharge: brings copies up to date by priority, within limits of bytes and time.

due, greatest priority first ── wants with tokens ──> Sync ──> changes of the first k ──> each a transaction
         ^                                                           |
         '── those after them, those not complete, those registered ─'     until bytes or seconds are spent
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from psoup_client import Client
from psoup_client.copies.answer_copy import REASONS, changes
from psoup_client.errors import (
    DeadlineExceeded,
    InvalidRequest,
    NotFound,
    PSoupError,
    ServerFault,
    Unavailable,
    from_failure,
)
from psoup_proto.v1 import sync_pb2
from psoup_recharge.budget import RechargeBudget
from psoup_recharge.entry import Entry

_WANTS = 200


@dataclass(frozen=True, slots=True)
class Recharged:
    """The outcome for one copy.

    `came` and `gone`: the rows that were added and removed. `size`: received bytes. `complete`: the copy is now the
    whole answer. `asked` is False if bytes or seconds ran out before its turn. `left`: a lower bound of the rows that
    had no room. `reset`: the reason why its old rows were dropped, if they were.
    """

    name: str
    asked: bool = False
    came: int = 0
    gone: int = 0
    size: int = 0
    left: int = 0
    complete: bool = False
    reset: str = ""
    error: PSoupError | None = None


@dataclass(frozen=True, slots=True)
class Recharge:
    """The outcome of a recharge. `received`: bytes. `fresh`: names of copies that were fresh enough to be skipped.

    `why`: the reason why copies were left out, `bytes` or `time`; "" if none was.
    """

    copies: tuple[Recharged, ...]
    received: int
    seconds: float
    fresh: tuple[str, ...] = ()
    why: str = ""

    @property
    def unfinished(self) -> list[Recharged]:
        """The outcomes of the copies that are not complete because bytes or seconds were spent."""
        return [copy for copy in self.copies if copy.error is None and not copy.complete]

    @property
    def left_out(self) -> list[str]:
        """The names of the unfinished copies."""
        return [copy.name for copy in self.unfinished]


class CopyStore(Protocol):
    """The store of copies that a round brings up to date; see `Store`."""

    def entries(self) -> list[Entry]:
        """All entries, in the order in which they are recharged."""
        ...

    def entry(self, name: str) -> Entry:
        """Find an entry by its name; case does not matter. Raises NotFound."""
        ...

    def key_of(self, entry: Entry) -> str:
        """The key of an entry's query."""
        ...

    def want(self, entry: Entry) -> sync_pb2.Want:
        """Build the want of a copy for a request. Raises NotFound."""
        ...

    def start_anew(self, entry: Entry) -> None:
        """Forget the token of a copy, so that the next reply has all its rows."""
        ...

    def apply(
        self,
        entry: Entry,
        want: sync_pb2.Want,
        change: sync_pb2.Change,
        streams: Sequence[sync_pb2.StreamTime],
        clock: int = 0,
        /,
    ) -> int | None:
        """Apply a change to a copy. Returns the number of rows that left; None if the copy changed meanwhile. Raises
        ServerFault.
        """
        ...

    def note(self, outcome: Recharge, sent: int, /) -> None:
        """Write the outcome of a recharge to the history."""
        ...


class Round:
    """A recharge of some copies: the entries to ask for, the outcome of each, and the budget."""

    def __init__(self, store: CopyStore, client: Client, budget: RechargeBudget, due: Sequence[Entry]) -> None:
        self._store = store
        self._client = client
        self._budget = budget
        self._due = list(due)
        self._registered = set[str]()
        self.done = {entry.name: Recharged(entry.name) for entry in due}

    def run(self) -> str:
        """Bring the copies up to date. Returns the limit that left copies incomplete, `bytes` or `time`; else ""."""
        due = [entry for entry in self._due if self._stands(entry)]
        self._budget.share_out(due)
        later = self._pass(due)
        self._budget.share_in()
        self._pass(later)
        return self._budget.why_spent if any(self._is_open(copy) for copy in self.done.values()) else ""

    def _stands(self, entry: Entry) -> bool:
        """Register an entry's new statement, in place of any other query with its key.

        Returns False if it was refused.
        """
        if not entry.sql or entry.synced is not None or self._budget.why_spent:
            return True
        try:
            self._client.register(entry.sql, key=self._store.key_of(entry), replace=True)
        except DeadlineExceeded as problem:
            self._cut_off(problem)
            return True  # the time is spent now, so no call asks for it
        except Unavailable:
            raise
        except PSoupError as problem:
            self.done[entry.name] = Recharged(entry.name, asked=True, error=problem)
            return False
        self._registered.add(entry.name)
        return True

    def _pass(self, entries: Sequence[Entry]) -> list[Entry]:
        """Ask for copies until they are complete, or their parts of the bytes are spent. Returns the entries not
        complete.
        """
        open_, later = list(entries), list[Entry]()
        while open_ and not self._budget.why_spent:
            later += [entry for entry in open_ if not self._budget.part_of(entry)]
            some = [entry for entry in open_ if self._budget.part_of(entry)]
            if not some:
                return later
            try:
                open_ = [*self._ask(some[:_WANTS]), *some[_WANTS:]]
            except DeadlineExceeded as problem:
                self._cut_off(problem)
                break
        return [*later, *open_]

    def _cut_off(self, problem: DeadlineExceeded) -> None:
        """End the round, because the deadline cut off a call. Raises `problem` if the recharge has no limit of time."""
        if self._budget.max_seconds is None:
            raise problem
        self._budget.end()

    def _ask(self, some: Sequence[Entry]) -> list[Entry]:
        """Make one Sync call and apply its changes. Returns the incomplete entries, and those without room in the
        reply.
        """
        budget, begun = self._budget, time.monotonic()
        pairs = [(entry, want) for entry in some if (want := self._want(entry)) is not None]
        if not pairs:
            return []
        wants = [want for _, want in pairs]
        body, size = changes(self._client, wants, budget.room, timeout=budget.seconds_left)
        filled = body.ByteSize()
        budget.note_reply(sum(want.ByteSize() for want in wants), size, filled, time.monotonic() - begun)
        again = list[Entry]()
        for (entry, want), outcome in zip(pairs, body.outcomes, strict=False):
            part = size * outcome.ByteSize() // max(filled, 1)
            budget.spend(entry, part)
            outcome_ = _applied(self._store, self._client, entry, want, outcome, body, self._registered)
            if outcome_.error is not None and outcome_.error.reason == "ANSWER_TOO_LARGE" and budget.widen():
                outcome_ = Recharged(entry.name, asked=True)
            self.done[entry.name] = after(self.done[entry.name], replace(outcome_, size=part))
            if self._is_open(outcome_):
                again.append(entry)
        return [*again, *[entry for entry, _ in pairs[len(body.outcomes) :]]]

    def _want(self, entry: Entry) -> sync_pb2.Want | None:
        """Build the want of a copy. Returns None if another program has forgotten or replaced the entry."""
        try:
            want, part = self._store.want(entry), self._budget.part_of(entry)
        except NotFound as problem:
            self.done[entry.name] = Recharged(entry.name, asked=True, error=problem)
            return None
        if part > 0:
            want.max_bytes = min(part, 2**31 - 1)
        return want

    @staticmethod
    def _is_open(copy: Recharged) -> bool:
        return copy.error is None and not copy.complete


def recharge(
    store: CopyStore, client: Client, *, max_bytes: int | None, max_seconds: float | None, only: Sequence[str]
) -> Recharge:
    """Bring the copies of a store up to date; see `Store.recharge`."""
    budget = RechargeBudget(max_bytes, max_seconds)
    wanted = [store.entry(name) for name in only] if only else store.entries()
    due = [entry for entry in wanted if only or not entry.is_fresh()]
    fresh = tuple(entry.name for entry in wanted if entry not in due)
    round_ = Round(store, client, budget, due)
    why = ""
    try:
        why = round_.run()
    except PSoupError as problem:
        why = problem.reason
        raise
    finally:
        report = Recharge(tuple(round_.done.values()), budget.received, budget.seconds, fresh, why)
        if due:
            store.note(report, budget.sent)
    return report


def _applied(
    store: CopyStore,
    client: Client,
    entry: Entry,
    want: sync_pb2.Want,
    outcome: sync_pb2.SyncOutcome,
    body: sync_pb2.SyncBody,
    registered: set[str],
) -> Recharged:
    """Apply one outcome of a reply. If the query of a statement is gone, register it again, once."""
    if outcome.WhichOneof("outcome") == "failure":
        error = from_failure(outcome.failure)
        if want.token and isinstance(error, NotFound | InvalidRequest):  # as after a restore: ask next by the key or ID
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
    try:
        gone = store.apply(entry, want, change, body.streams, body.clock)
    except ServerFault as problem:  # the change does not fit this copy
        return Recharged(entry.name, asked=True, error=problem)
    if gone is None:  # another process changed it first: ask with the new token
        return Recharged(entry.name, asked=True)
    reset = REASONS.get(change.reset, "other")
    return Recharged(entry.name, True, change.rows, gone, 0, change.rows_left, change.complete, reset)


def after(first: Recharged, later: Recharged) -> Recharged:
    """Add up two successive outcomes of one copy."""
    return replace(
        later,
        came=first.came + later.came,
        gone=first.gone + later.gone,
        size=first.size + later.size,
        reset=first.reset or later.reset,
    )
