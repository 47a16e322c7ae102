"""Messages to watching clients, made on a reader thread from one snapshot. Equal messages are made once.

    taken places ─ wants with tokens ─> outcomes, as many as fit ─> one body, compressed ─> page
         '── the same wants at the same tokens, in the same form ──────────────────────────> the same page

`WatchPage` has the changes to its watcher; the event loop applies them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from psoup.answer.copies.watched_clauses import WatchedClause, clause_of, slides_of
from psoup.errors import PSoupError
from psoup.published.snapshot import Snapshot
from psoup.work.read_budget import ReadBudget
from psoup_proto.v1 import sync_pb2
from psoup_service.host.ids import Ids
from psoup_service.sync.changes import Copies, packed
from psoup_service.sync.outcomes import outcome_of
from psoup_service.sync.tokens import Tokens
from psoup_service.watching.watcher import Taken, Watcher, WatchForm
from psoup_service.wire import convert

_TRANSIENT = "retry_after_ms"
_LONGEST_S = 0.25
"""Seconds after which no further want is evaluated for a message."""


@dataclass(frozen=True, slots=True)
class Target:
    """The subject of a want: a query, its streams, and the clause whose new matches mark the want.

    `clause`: None if only an evaluation shows changes. `slides`: the answer may change without new tuples, as NOW
    advances.
    """

    query_id: int
    streams: tuple[int, ...]
    clause: WatchedClause | None
    slides: bool
    window: bytes
    """A digest of the window that was asked for."""


@dataclass(frozen=True, slots=True)
class Told:
    """The outcome of a want.

    `token`: a new token, if any. `failed`: the want has failed for good. `again`: it has failed for now. `target`: set
    if the client gets a message even without a change. `cost`: processor seconds of the evaluation; 0 for the first.
    """

    token: bytes
    complete: bool
    failed: bool
    again: bool
    target: Target | None
    cost: float


@dataclass(frozen=True, slots=True)
class WatchPage:
    """A message and the outcomes of its places. The message is None if no place has a change. `left`: places without
    room.
    """

    reply: sync_pb2.WatchResponse | None
    told: dict[int, Told]
    left: Sequence[int]
    sequence: int


class WatchPages:
    """Makes the messages to watchers from one snapshot."""

    def __init__(
        self,
        snapshot: Snapshot,
        budget: ReadBudget,
        tokens: Tokens,
        ids: Ids,
        now: int,
        refused: Callable[[PSoupError], None],
    ) -> None:
        """`refused`: called for each want that fails."""
        self._refused = refused
        self._snapshot = snapshot
        self._budget = budget
        self._tokens = tokens
        self._ids = ids
        self._now = now
        self._made: dict[tuple[object, ...], dict[tuple[bytes, ...], WatchPage]] = {}
        """The pages made so far, in two steps of keys. The form, the places and the first want are a quick first key.
        All wants are the second key."""

    def page(self, watcher: Watcher, taken: Taken, *, at_hand: bool = False) -> WatchPage | None:
        """The message to a watcher about some places. It may have been made for another watcher already.

        `at_hand`: return None unless the page has been made already.
        """
        form, wants = watcher.form, [watcher.wants[place] for place in taken.places]
        first = (form, taken.told, *taken.places, wants[0].SerializeToString() if wants else b"")
        if at_hand and first not in self._made:
            return None
        # Wants contain tokens: clients that hold other rows of the same query must get another page.
        key, made = tuple([want.SerializeToString() for want in wants]), self._made.setdefault(first, {})
        if key not in made and not at_hand:
            made[key] = self._make(form, taken, wants)
        return made.get(key)

    def _make(self, form: WatchForm, taken: Taken, wants: Sequence[sync_pb2.Want]) -> WatchPage:
        copies = Copies(self._snapshot, self._tokens, self._ids, form.tenant, self._now, self._budget, form.encoding)
        outcomes, places = list[sync_pb2.SyncOutcome](), list[int]()
        replies, room, end = dict[int, Told](), form.most_bytes, time.perf_counter() + _LONGEST_S
        for place, want in zip(taken.places, wants, strict=True):
            if room <= 0 or (time.perf_counter() > end and replies):
                break
            began = time.thread_time()
            outcome = outcome_of(want, copies, room, form.most_bytes, self._refused)
            if outcome is None:
                break
            # A read waits for other reads and calls meanwhile. The first answer of a client says nothing of later ones.
            cost, tell = time.thread_time() - began if want.token else 0.0, place in taken.told
            replies[place] = self._told(want, outcome, copies, cost, tell)
            if replies[place].again:
                continue
            if outcome.change.token or replies[place].failed or tell:
                outcomes.append(outcome)
                places.append(place)
                room -= outcome.ByteSize()
        reply = None
        if outcomes:
            body = packed(copies, outcomes, form.compression, places)
            reply = sync_pb2.WatchResponse(body=body.body, compression=body.compression, size=body.size)
        left = [place for place in taken.places if place not in replies]
        return WatchPage(reply, replies, left, self._snapshot.sequence)

    def _told(
        self, want: sync_pb2.Want, outcome: sync_pb2.SyncOutcome, copies: Copies, cost: float, tell: bool
    ) -> Told:
        if outcome.HasField("failure"):
            again = _TRANSIENT in outcome.failure.facts
            return Told(b"", False, not again, again, None, cost)
        change = outcome.change
        target = self._target(want, change.token or want.token, copies) if tell else None
        return Told(change.token, change.complete, False, False, target, cost)

    def _target(self, want: sync_pb2.Want, token: bytes, copies: Copies) -> Target:
        content = self._tokens.read(token, copies.tenant, self._snapshot.sequence)
        record = self._snapshot.query(content.query_id, copies.tenant)
        self._snapshot.automatic.note_copied(record.query_id)
        window = convert.one_window(want.window) if want.window else None
        streams = tuple(self._snapshot.streams_of(record))
        clause, slides = clause_of(self._snapshot, record, window), slides_of(self._snapshot, record, window)
        return Target(content.query_id, streams, clause, slides, content.window)
