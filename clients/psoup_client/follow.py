"""New matches as they come: batches of tuples, each with the queries that it matched, from a position on.

    position ──> Follow ──> batch, with the position after it ──> the program stores both
        ^            └ the connection is lost, the service restarts, ten minutes are over
        '────── a pause, then the same call with the last position ──'

The service queues nothing for a slow program. A program that stores a batch's position with its own work misses
nothing: what it did not store comes again.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from psoup_client import html
from psoup_client.answer import rows_of
from psoup_client.arguments import short_errors
from psoup_client.channel.patience import Patience, passes
from psoup_client.errors import DeadlineExceeded, PositionLost, PSoupError
from psoup_client.payload import read
from psoup_client.phrases import counted
from psoup_client.session import Session
from psoup_proto.v1 import follow_pb2

_CALL_S = 600.0
"""The seconds after which a call ends and a new call begins. So the client notices a silently lost connection."""
_MATCHES = pa.schema([("tuple_id", pa.int64()), ("query_id", pa.string())])
_CHANGES = pa.array(["came", "stays", "left"])
"""The words for the numbers of changes in follow.proto."""
_QUERIES = pa.schema([("query_id", pa.string()), ("key", pa.string()), ("labels", pa.map_(pa.string(), pa.string()))])


class Match(NamedTuple):
    """A tuple, as a dict with `_id`, `_time` and the columns, and the queries that it matched.

    The values are as in `Answer.rows`: a DATE or TIMESTAMP outside the years 1 to 9999 is a text in ISO 8601.
    `query_ids`, `keys` (None for a query without a key) and `labels` have an element for each query, oldest query
    first.

    The tuple of a table is a new version of its row, or a deletion: `_deleted` is then True, and all columns outside
    of the key are None. `changes` has an element for each query: "came" (the version matches, and the version before
    did not), "stays" (both match) or "left" (only the version before matched). It is empty for a stream.
    """

    tuple: dict[str, Any]
    query_ids: list[str]
    keys: list[str | None]
    labels: list[dict[str, str]]
    changes: Sequence[str] = ()

    @property
    def came(self) -> list[str]:
        """The IDs of the queries that match the version of a table's row, but not the version before."""
        return self._with("came")

    @property
    def stays(self) -> list[str]:
        """The IDs of the queries that match both the version of a table's row and the version before."""
        return self._with("stays")

    @property
    def left(self) -> list[str]:
        """The IDs of the queries that match only the version before of a table's row."""
        return self._with("left")

    def _with(self, change: str) -> list[str]:
        return [query_id for query_id, each in zip(self.query_ids, self.changes, strict=False) if each == change]


@dataclass(frozen=True, slots=True)
class FollowBatch:
    """Some matches in stream order. Iterating gives a `Match` for each tuple.

    `position`: text to store, and to give as `after`: the matches after this batch follow it. `tuples`: `_id`, `_time`
    and the columns, each tuple once. `matches`: `tuple_id` and `query_id`, and of a table `change`. `queries`:
    `query_id`, `key` and `labels`, each query once. `next_id`: all tuples before it have been told. `lag`: the number
    of tuples not told yet. `left_out`: queries with the labels that are not told: joins, aggregates, DISTINCT, inactive
    queries, and queries with the amount `none` that are not named.

    A tuple that matches very many queries may be in several batches, each with some of the queries.
    """

    position: str
    tuples: pa.Table
    matches: pa.Table
    queries: pa.Table
    next_id: int
    lag: int
    left_out: int
    sequence: int

    def __repr__(self) -> str:
        some = f"{counted(self.tuples.num_rows, 'tuple')}, {counted(self.matches.num_rows, 'match')}"
        return f"<FollowBatch: {some}, lag {self.lag:,}>"

    def _repr_html_(self) -> str:
        """Show the numbers of tuples and matches in a notebook, and the position."""
        sizes = {"tuples": self.tuples.num_rows, "matches": self.matches.num_rows, "queries": self.queries.num_rows}
        return html.facts({**sizes, "lag": self.lag, "left out": self.left_out, "position": self.position})

    def __len__(self) -> int:
        return int(self.tuples.num_rows)

    def __iter__(self) -> Iterator[Match]:
        tags = {
            query_id: (key, dict(labels))
            for query_id, key, labels in zip(*(column.to_pylist() for column in self.queries.columns), strict=True)
        }
        pairs = iter(zip(*(column.to_pylist() for column in self.matches.columns), strict=True))
        pair = next(pairs, None)
        names = self.tuples.column_names
        for values in rows_of(self.tuples):
            row = dict(zip(names, values, strict=True))
            query_ids, changes = list[str](), list[str]()
            while pair is not None and pair[0] == row["_id"]:
                query_ids.append(pair[1])
                changes += pair[2:]
                pair = next(pairs, None)
            keys, labels = [tags[query_id][0] for query_id in query_ids], [dict(tags[i][1]) for i in query_ids]
            yield Match(row, query_ids, keys, labels, changes)


class Following:
    """New matches of a stream, made by `Client.follow`: iterating waits for the next `FollowBatch`.

    It goes on by itself after a lost connection or a restart. Use it in a `with` statement, or call `close`, which any
    thread may do. After PositionLost, iterating goes on at the oldest tuple that is kept.
    """

    def __init__(
        self, session: Session, request: follow_pb2.FollowRequest, *, progress: bool, patience: float | None
    ) -> None:
        """Begin at once, so that `position` is known. Raises the errors of the call, and PositionLost."""
        self._session = session
        self._request = request
        self._progress = progress
        retry = session.connection.retry
        self._patience = Patience(retry.patience_seconds if patience is None else patience, retry)
        self._closed = session.connection.event()
        self._call: Any = None
        self._replies: Iterator[Any] | None = None
        self._empty: tuple[pa.Table, pa.Table, pa.Table] | None = None
        self._taken(self._next())

    def __repr__(self) -> str:
        return f"<Following of {self._request.stream}: iterate for batches of new matches>"

    @property
    def position(self) -> str:
        """The position after the last batch, or a later one if no matches came since."""
        return self._request.after

    def __enter__(self) -> Following:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[FollowBatch]:
        return self

    @short_errors
    def __next__(self) -> FollowBatch:
        while not self._closed.is_set():
            reply = self._next()
            if reply is not None:
                batch = self._taken(reply)
                if self._progress or batch.matches.num_rows:
                    return batch
        raise StopIteration

    def close(self) -> None:
        """End the call and the iteration."""
        self._closed.set()
        if (call := self._call) is not None:
            call.cancel()

    def _next(self) -> Any:
        """The next message. Waits while the service is away. Returns None after `close`."""
        while not self._closed.is_set():
            begun = self._replies is not None
            try:
                reply = self._session.reflecting(None, self._begin) if self._replies is None else next(self._replies)
            except StopIteration:
                self._drop()
            except PSoupError as problem:
                self._drop()
                if self._closed.is_set():
                    break
                if not (begun and isinstance(problem, DeadlineExceeded)):
                    self._wait(problem)
            else:
                self._patience.reset()
                return reply
        return None

    def _begin(self, sequence: int) -> Any:
        """Start a call from the last position. Returns its first message."""
        self._request.min_sequence = sequence
        connection = self._session.connection
        self._call = connection.open(connection.follow.Follow, self._request, _CALL_S)
        self._replies = connection.replies(self._call)
        if self._closed.is_set():
            self._call.cancel()
        return next(self._replies)

    def _drop(self) -> None:
        if self._call is not None:
            self._call.cancel()
        self._call = self._replies = None

    def _wait(self, problem: PSoupError) -> None:
        """Wait before the next attempt for a random part of the pause, so that not all clients return at once."""
        if not passes(problem):
            raise problem
        self._closed.wait(self._patience.next(problem) * random.uniform(0.5, 1.0))

    def _taken(self, reply: Any) -> FollowBatch:
        """The batch of a message. Raises PositionLost for a reset."""
        self._request.after = reply.position
        self._session.know_sequence(reply.sequence)
        if reply.HasField("reset"):
            reset = reply.reset
            raise PositionLost(
                f"{reset.message}; iterating goes on there",
                position=reply.position,
                why=follow_pb2.FollowResetReason.Name(reset.reason).removeprefix("FOLLOW_RESET_REASON_"),
                missed=reset.missed if reset.HasField("missed") else None,
                first_id=reset.first_id,
            )
        facts = int(reply.next_id), int(reply.lag), int(reply.left_out), int(reply.sequence)
        return FollowBatch(reply.position, *tables_of(reply), *facts)


def tables_of(reply: Any) -> tuple[pa.Table, pa.Table, pa.Table]:
    """The tuples, the matches and the queries of a message."""
    if not reply.matches_ipc:
        return pa.table({}), _MATCHES.empty_table(), _QUERIES.empty_table()
    prefix, tuples = reply.query_id_prefix, read(reply.tuples_ipc)
    matches, queries = (_named(read(part), prefix) for part in (reply.matches_ipc, reply.queries_ipc))
    if "change" in matches.column_names:
        matches = matches.set_column(2, "change", _CHANGES.take(matches["change"].combine_chunks()))
    return tuples, matches, queries


def _named(table: pa.Table, prefix: str) -> pa.Table:
    """The table with IDs of queries in place of their numbers."""
    query_ids = pc.binary_join_element_wise(prefix, pc.cast(table["query"], pa.string()), "")
    return table.set_column(table.column_names.index("query"), "query_id", query_ids)
