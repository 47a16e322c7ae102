"""Clients with copies of answers of all patterns: each asks, and every reply is looked at from all sides.

    Client: an AnswerCopy, or an entry of a store,
            and where its token is from                    Clients.ask ── one reply ──> the validators, and counts

`MET` counts what was met: pairs of a step, a pattern and what a client does, and the cases of `WANTED`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from psoup.answer.invoke import invoke
from psoup.errors import PSoupError
from psoup.sql import window_clause
from psoup.work.clock import VirtualClock
from psoup_client import errors
from psoup_client.answer import rows_of
from psoup_client.copies.answer_copy import AnswerCopy, Synced
from psoup_proto.v1 import sync_pb2
from psoup_service.sync.tokens import ClientRows
from psoup_testing.copies import copy_validators as validators
from psoup_testing.copies.copy_desk import Desk, Line, Manner, Start
from psoup_testing.copies.copy_stores import KeptCopy, LookedAtStore, StoreLine, limited
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.oracles.questions import again

PATTERNS: dict[str, str] = {
    "range": "SELECT _id, a, b, x, w FROM s WHERE a > 2",
    "computed": "SELECT _id, a / b AS q FROM s",
    "order by": "SELECT _id, a FROM s WHERE b < 7 ORDER BY x DESC, w",
    "limit": "SELECT _id, b FROM s WHERE a IS NOT NULL LIMIT 7",
    "first rows": "SELECT a, b FROM s ORDER BY b, a LIMIT 5",
    "offset": "SELECT a, w FROM s LIMIT 4 OFFSET 3",
    "distinct": "SELECT DISTINCT a, w FROM s",
    "groups": "SELECT a, count(*) AS n, max(x) AS m FROM s GROUP BY a",
    "having": "SELECT w, sum(b) AS t FROM s GROUP BY w HAVING count(*) > 3",
    "one row": "SELECT count(*) AS n, min(b) AS m FROM s",
    "join": "SELECT p.b, q.x FROM s AS p, r AS q WHERE p.a = q.a AND p.b > q.b",
    "self join": "SELECT p._id, q.w FROM s AS p, s AS q WHERE p.b = q.a AND p.x < q.x",
    "joined groups": "SELECT q.w, count(*) AS n FROM s AS p, r AS q WHERE p.a = q.b GROUP BY q.w",
    "now": "SELECT a, now() AS t FROM s WHERE a > 5",
}
RANGED = ("range", "computed", "order by", "limit")
_RESETS = ("FIRST", "INCARNATION", "ROLLED_BACK", "KEY", "WINDOW", "WHOLE")
CLIENT = (
    "asks",
    "asks for all",
    "few bytes",
    "few rows",
    "oldest first",
    "is cut",
    "goes back",
    "is shared",
    "other window",
    "is kept in a store",
    "spends bytes",
    "is killed",
    "is one of two",
)
WANTED = (
    *(f"reset {name}" for name in _RESETS),
    *(f"{count} intervals" for count in range(5)),
    *("an end moves back", "a beginning moves back", "a range below", "rows leave", "complete", "a part", "failure"),
)
MET: Counter[str] = Counter()


@dataclass(slots=True)
class Client:
    """A copy, and what the client knows without the service: where its token is from, and what has happened since."""

    copy: AnswerCopy | KeptCopy
    line: Line
    key: str
    pattern: str
    given: tuple[Start, int, str] | None = None
    """Start, sequence and window of the token."""
    since: set[str] = field(default_factory=set)
    older: tuple[Any, Any] | None = None
    """A copy of the copy that it may go back to, and what was given with it."""


class Clients:
    """The clients of a desk."""

    desk: Desk
    soup: RestartingPSoup
    clock: VirtualClock
    clients: list[Client]
    sound = True
    """No reply has been found wrong."""

    def stands(self, client: Client) -> bool:
        """Whether a client's query is there."""
        try:
            self.soup.query(client.key)
        except PSoupError:
            return False
        return True

    def client_met(self, event: str, client: Client) -> None:
        """Note what a client does, and after which steps."""
        MET[f"{event} / {client.pattern}"] += 1
        MET[event] += 1
        for step in client.since:
            MET[f"{step} / {event}"] += 1
            MET[f"{step} / {client.pattern} / {event}"] += 1

    def ask(self, clients: Sequence[Client], manner: Manner) -> None:
        """Make a reply for some clients and check it in every way; the clients of each store share a recharge."""
        stores = {client.copy.store: client.line for client in clients if isinstance(client.copy, KeptCopy)}
        for store, line in stores.items():
            self.recharge(store, line, [c for c in clients if c.line is line], manner)
        copies = [client for client in clients if isinstance(client.copy, AnswerCopy)]
        if copies:
            self.ask_for(copies, manner)

    def ask_for(self, clients: Sequence[Client], manner: Manner) -> None:
        """Make a reply for some copies."""
        first, desk, self.sound = clients[0], self.desk, False
        line = first.line
        foreign = first.given is not None and first.given[0].incarnation != desk.start.incarnation
        line.manner = Manner(*(getattr(manner, name) for name in Manner.__slots__))
        line.manner.key = first.key if foreign else ""
        self.asked(clients, manner)
        before = [(client.copy._state, _shown(client.copy)) for client in clients]
        try:
            outcomes = line.ask([client.copy for client in clients])
        except errors.Unavailable:
            for client, (state, _) in zip(clients, before, strict=True):
                validators.unchanged(state, client.copy._state)
            self.sound = True
            return
        body, arrow = _body(line.reply), self.again(line)
        fallen_back = list[Client]()
        answered = zip(clients, before, outcomes, line.asked.wants, body.outcomes, strict=False)
        for place, (client, was, synced, want, outcome) in enumerate(answered):
            if outcome.HasField("failure"):
                validators.unchanged(was[0], client.copy._state)
                if synced.error is None:  # it is to be asked for by its key
                    fallen_back.append(client)
                else:
                    self.failed(client, synced)
                continue
            other = arrow.outcomes[place].change if place < len(arrow.outcomes) else None
            self.look(client, was, want, outcome.change, body, other, manner.max_bytes)
        self.sound = True
        for client in fallen_back:
            self.ask_for([client], Manner())

    def asked(self, clients: Sequence[Client], manner: Manner) -> None:
        """Note how some clients ask."""
        events = [("asks for all", len(clients) > 1), ("few bytes", manner.max_bytes), ("few rows", manner.max_rows)]
        events += [("oldest first", manner.oldest_first), ("is cut", manner.cut), ("asks", True)]
        for client in clients:
            for event, so in events:
                if so:
                    self.client_met(event, client)

    def recharge(
        self, store: LookedAtStore, line: StoreLine, clients: Sequence[Client], manner: Manner, budget: int = 0
    ) -> None:
        """Recharge some entries of a store; each change is checked when it is applied."""
        line.manner, line.limited, line.replies, self.sound = manner, limited(manner), 0, False
        self.asked(clients, manner)
        for client in clients:
            self.client_met("is kept in a store", client)
            if budget:
                self.client_met("spends bytes", client)
        before = [client.copy.state() for client in clients]
        spent = 1 if line.limited else budget or None
        try:
            report = store.recharge(line, max_bytes=spent, only=[client.key for client in clients])
        except errors.Unavailable:
            for client, was in zip(clients, before, strict=True):
                assert client.copy.same_as(was), "atomic: the copy has changed without a reply"
            self.sound = True
            return
        for client, copy in zip(list(clients), report.copies, strict=True):
            if copy.error is not None:
                self.failed(client, Synced(error=copy.error))
        self.sound = True

    def look_at(self, line: Line, copy: KeptCopy, was: Any, want: sync_pb2.Want, change: sync_pb2.Change) -> None:
        """Look at a change of an entry."""
        holders = [client for client in self.clients if isinstance(client.copy, KeptCopy) and client.key == copy.name]
        (client,) = [client for client in holders if client.copy.store.path == copy.store.path]
        body = _body(line.reply)
        if body.sequence != self.desk.sequence:  # it came late, and the answer is another one by now
            if change.token:
                client.given = self.desk.start, body.sequence, want.window
            return
        room = want.max_bytes if 0 < want.max_bytes < line.asked.max_bytes else line.asked.max_bytes
        self.look(client, was, want, change, body, None, room, copy)

    def again(self, line: Line) -> sync_pb2.SyncBody:
        """Now and then the reply to the same request, which is the same, or to one that wants Arrow."""
        self.number += 1
        if self.number % 4 > 1:
            return sync_pb2.SyncBody()
        if self.number % 4:
            validators.same_again(line.reply, self.desk.serve(line.asked))
            return sync_pb2.SyncBody()
        request = sync_pb2.SyncRequest()
        request.CopyFrom(line.asked)
        request.encoding = sync_pb2.ENCODING_ARROW
        return _body(self.desk.serve(request))

    def failed(self, client: Client, synced: Synced) -> None:
        """A query that is gone; or an answer that comes whole and has no room."""
        MET["failure"] += 1
        if client not in self.clients:
            return
        if getattr(synced.error, "reason", "") == "ANSWER_TOO_LARGE":
            assert client.pattern not in RANGED
            return
        assert not self.stands(client) or (client.given is not None and not self.named(client)), str(synced.error)
        self.clients.remove(client)

    def named(self, client: Client) -> bool:
        """Whether the ID that a client has is that of its key's query."""
        return isinstance(client.copy, KeptCopy) or client.copy.query_id == self.desk.servicer._backend.ids.query(
            self.soup.query(client.key)
        )

    def look(
        self, client: Client, was: Any, want: Any, change: Any, body: Any, arrow: Any, room: int, of: Any = None
    ) -> None:
        """Let the validators look at a change."""
        desk, copy = self.desk, of or client.copy
        ranged, content, state = client.pattern in RANGED, _read(desk, copy), copy._state
        assert state.schema is not None
        numbers = was[0].table.column(0).to_pylist() if ranged and was[0].table is not None else []
        evidence = validators.Told(
            want=want,
            change=change,
            sequence=(0 if client.given is None else client.given[1], body.sequence),
            before=was[1],
            after=_shown(copy),
            truth=self.truth(client, copy, want.window),
            schema=state.schema,
            held=content,
            ranged=ranged,
            volatile=client.pattern == "now",
            numbers=frozenset(numbers),
            meant=self.meant(client, want),
            room=room or 2**20,
        )
        validators.check(evidence)
        if arrow is not None and ranged and change.complete and arrow.complete:
            validators.same_rows(evidence, arrow)
        self.count(evidence, None if client.given is None else _read_bytes(desk, want.token))
        if change.token:
            client.given = desk.start, desk.sequence, want.window
        for step in client.since:
            MET[f"{step} / {client.pattern}"] += 1
        client.since.clear()
        self.number += 1
        if self.number % 2 and change.complete and client.pattern != "now":
            again = sync_pb2.SyncRequest(wants=[sync_pb2.Want(token=copy._state.token, window=want.window)])
            again.wants[0].accept_truncation = True
            validators.nothing_new(_body(desk.serve(again)).outcomes[0].change)

    def truth(self, client: Client, copy: AnswerCopy | KeptCopy, window: str) -> validators.Rows:
        """The rows of an invocation."""
        stored = isinstance(copy, KeptCopy)
        number = self.soup.query(client.key) if stored else self.desk.servicer._backend.ids.read_query(copy.query_id)
        answer = again(
            invoke,
            self.soup.engine.snapshot(),
            number,
            tenant=self.soup.tenant,
            now=self.clock.now(),
            window=window_clause(window) if window else None,
            accept_truncation=True,
        )
        return list(rows_of(answer.to_table()))

    def meant(self, client: Client, want: sync_pb2.Want) -> sync_pb2.Reset.ValueType:
        """The reset that a client's token calls for, told from what has happened to the data."""
        if client.given is None or not want.token:
            return sync_pb2.RESET_FIRST
        (start, sequence, window), desk = client.given, self.desk
        if start.incarnation != desk.start.incarnation:
            return sync_pb2.RESET_INCARNATION
        if not desk.shares(start, 0):
            return sync_pb2.RESET_ROLLED_BACK
        if not desk.start.key - 1 <= start.key <= desk.start.key:
            return sync_pb2.RESET_KEY
        if not desk.shares(start, sequence):
            return sync_pb2.RESET_ROLLED_BACK
        return sync_pb2.RESET_WINDOW if window != want.window else sync_pb2.RESET_UNSPECIFIED

    def count(self, evidence: validators.Told, before: ClientRows | None) -> None:
        """Count what a reply had in it."""
        MET[f"reset {sync_pb2.Reset.Name(evidence.change.reset).removeprefix('RESET_')}"] += 1
        MET["complete" if evidence.change.complete else "a part"] += 1
        MET["rows leave"] += (
            len(evidence.after) < len(evidence.before) + evidence.change.rows and not evidence.change.reset
        )
        if evidence.ranged and evidence.held is not None:
            now = evidence.held.intervals
            MET[f"{len(now)} intervals"] += 1
            if before is not None and before.intervals and now and not evidence.change.reset:
                MET["an end moves back"] += now[-1][1] < before.intervals[-1][1]
                MET["a beginning moves back"] += now[0][0] < before.intervals[0][0]
                MET["a range below"] += now[0][0] < 0 <= before.intervals[0][0]


def _shown(copy: AnswerCopy) -> validators.Rows:
    return [] if copy._state.table is None else list(copy.rows())


def _body(reply: sync_pb2.SyncResponse) -> sync_pb2.SyncBody:
    raw = pa.decompress(reply.body, reply.size, "zstd", asbytes=True) if reply.compression else reply.body
    return sync_pb2.SyncBody.FromString(raw)


def _read(desk: Desk, copy: AnswerCopy) -> ClientRows | None:
    return _read_bytes(desk, copy._state.token)


def _read_bytes(desk: Desk, token: bytes) -> ClientRows | None:
    try:
        return desk.servicer._tokens.read(token, desk.soup.tenant, desk.sequence)
    except Exception:  # it means nothing here
        return None
