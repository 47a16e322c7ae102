"""The Results Structure of a window at a client: the tuples that satisfy each query, as bits.

    tuple        70 71 72 73 74 75 76 77   78 …
    query 7       1  0  0  1  0  0  0  0    1       a `frozenbitarray`: `&`, `|`, `~`, `count()`
    query 9       1  1  0  0  0  0  0  0    0

>>> found = Results(70, 74, ["q-7f3a91c2-7", "q-7f3a91c2-9"], ["cheap", ""], [bytes([9]), bytes([3])], None)
>>> both = found["cheap"] & found["q-7f3a91c2-9"]
>>> both.count(), [found.first_id + at for at in both.search(1)]
(1, [70])
>>> found.to_arrow().to_pylist()[3]
{'tuple_id': 73, 'cheap': True, 'q-7f3a91c2-9': False}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from bitarray import frozenbitarray

from psoup_client import html
from psoup_client.completeness import Completeness
from psoup_client.errors import InvalidRequest
from psoup_client.phrases import counted
from psoup_client.query import AnyQuery
from psoup_client.tags import check_key, check_labels


class Results(Mapping[str, frozenbitarray]):
    """For each query, by its ID or key, a bit for each tuple from `first_id` to before `end_id`.

    It iterates over the IDs, in the order of the call; `query_keys` has their keys, "" for none. `completeness` is that
    of the window, `errors` counted for each query. `more`: there are queries that a `limit` left out.
    """

    def __init__(
        self,
        first_id: int,
        end_id: int,
        query_ids: list[str],
        keys: list[str],
        rows: Sequence[bytes],
        completeness: Completeness | None,
        more: bool = False,
    ) -> None:
        """Store a row of bits for each query. The first tuple has the lowest bit of the first byte."""
        self.first_id = first_id
        self.end_id = end_id
        self.query_ids = query_ids
        self.query_keys = keys
        self.completeness = completeness
        self.more = more
        self._rows = rows
        self._places = {key: place for place, key in enumerate(keys) if key}
        self._places.update((query_id, place) for place, query_id in enumerate(query_ids))

    def __len__(self) -> int:
        return len(self.query_ids)

    def __iter__(self) -> Iterator[str]:
        return iter(self.query_ids)

    def __getitem__(self, query: AnyQuery | str) -> frozenbitarray:
        row = self._rows[self._places[query.id if isinstance(query, AnyQuery) else query]]
        count = self.end_id - self.first_id
        bits = frozenbitarray(buffer=row, endian="little")
        return bits if len(bits) == count else bits[:count]

    def __repr__(self) -> str:
        return f"<Results of {counted(len(self), 'query')} over the tuples {self.first_id} to before {self.end_id}>"

    def _repr_html_(self) -> str:
        """Show the first tuples in a notebook, with a column for each query. The heading has its key or ID, and its
        count.
        """
        count, shown = self.end_id - self.first_id, self.query_ids[: html.SHOWN_COLUMNS]
        rows = [self[query_id] for query_id in shown]
        names = [f"{name}: {bits.count():,}" for name, bits in zip(self._names(), rows, strict=False)]
        marks = (
            (self.first_id + at, *("✓" if bits[at] else "" for bits in rows))
            for at in range(min(count, html.SHOWN_ROWS))
        )
        size = html.shape_text(count, len(self), ("tuple", "query"))
        said = "" if self.completeness is None else html.paragraph(self.completeness.sentence())
        return html.table(["tuple", *names], marks) + html.paragraph(size) + said

    def _names(self) -> list[str]:
        """Return the key of each query, or its ID if it has no key."""
        return [key or query_id for query_id, key in zip(self.query_ids, self.query_keys, strict=True)]

    def to_arrow(self) -> pa.Table:
        """Give the column `tuple_id`, and a column of booleans for each query, named by its key, or else its ID.

        The columns share the memory of the bits.
        """
        count = self.end_id - self.first_id
        columns = [pa.Array.from_buffers(pa.bool_(), count, [None, pa.py_buffer(row)]) for row in self._rows]
        ids = pa.arange(self.first_id, self.end_id)
        return pa.table([ids, *columns], ["tuple_id", *self._names()])


_NAMES = 1_024
"""The greatest number of query names in one call."""

_ID = re.compile(r"q-[0-9a-f]{8}-[0-9]{1,19}", re.ASCII)


def gathered(
    call: Callable[[Any], Any],
    request: Any,
    queries: Iterable[AnyQuery | str] | None,
    labels: Mapping[str, str] | None,
) -> Results:
    """Make the calls for the window and limits of `request` (a ResultsRequest).

    Each call gets some queries and tuples.
    """
    if isinstance(queries, str | Mapping):
        raise TypeError(f"queries is {queries!r}: give a list of queries, IDs and keys; labels go with labels=")
    if queries is not None and labels is not None:
        raise ValueError("give queries or labels, not both")
    check_labels(labels)
    names = None if queries is None else list(dict.fromkeys(map(_name, queries)))
    parts = _Parts()
    if names is None:
        request.labels.update(labels or {})
        limit = request.limit
        while True:
            reply = parts.take(call, request)
            parts.more = bool(reply.more_queries)
            if not parts.more or len(parts.query_ids) == limit:
                return parts.results(parts.query_ids)
            parts.go_on(request)
            request.after_query_id, request.limit = parts.query_ids[-1], limit and limit - len(parts.query_ids)
    if not names:
        raise InvalidRequest("queries is empty; name some, or leave it out for all on the stream")
    limit = request.limit or len(names)
    parts.more, names = limit < len(names), names[:limit]
    request.queries_in_all = len(names)
    for of_ids in (True, False):
        left = [name for name in names if bool(_ID.fullmatch(name)) is of_ids]
        while left:
            (request.query_ids if of_ids else request.keys)[:] = left[:_NAMES]
            reply = parts.take(call, request)
            left = left[len(reply.query_ids) :]
            parts.go_on(request)
    return parts.results(names)


def _name(query: AnyQuery | str) -> str:
    if not isinstance(query, AnyQuery | str):
        raise TypeError(f"a query is {query!r}: give a query, its ID or its key")
    if isinstance(query, str):
        check_key(query)
    return query.id if isinstance(query, AnyQuery) else query


class _Parts:
    """The bits from the replies so far, with a complete row for each query."""

    def __init__(self) -> None:
        self.query_ids = list[str]()
        self._keys = list[str]()
        self._rows = list[bytes]()
        self.more = False
        self._window: tuple[int, int] | None = None
        self._completeness: Completeness | None = None

    def take(self, call: Callable[[Any], Any], request: Any) -> Any:
        """Fetch all tuples of the first queries of a request, in as many calls as needed. Returns the first reply."""
        first = reply = call(request)
        self._window = self._window or (reply.first_id, reply.end_id)
        rest, pieces = type(request)(), [[row] for row in _rows_of(reply)]
        rest.CopyFrom(request)
        self._note(reply)
        while reply.next_id < first.end_id:
            for field in ("keys", "labels", "after_query_id", "begin", "end", "last", "limit"):
                rest.ClearField(field)
            rest.query_ids[:] = first.query_ids
            rest.first_id, rest.end_id = reply.next_id, first.end_id
            reply = call(rest)
            self._note(reply)
            for piece, row in zip(pieces, _rows_of(reply), strict=True):
                piece.append(row)
        self.query_ids += first.query_ids
        self._keys += first.keys
        self._rows += map(b"".join, pieces)
        return first

    def go_on(self, request: Any) -> None:
        """Set the window of a request for further queries to the window of the first reply."""
        for field in ("begin", "end", "last", "query_ids", "keys", "accept_truncation"):
            request.ClearField(field)
        assert self._window is not None
        request.first_id, request.end_id = self._window

    def results(self, names: Sequence[str]) -> Results:
        """Build the results of all replies, in the order of `names` (IDs or keys)."""
        places = {key: place for place, key in enumerate(self._keys) if key}
        places.update((query_id, place) for place, query_id in enumerate(self.query_ids))
        order = list(dict.fromkeys(places[name] for name in names))
        assert self._window is not None
        query_ids, keys = ([column[place] for place in order] for column in (self.query_ids, self._keys))
        rows = [self._rows[place] for place in order]
        return Results(*self._window, query_ids, keys, rows, self._completeness, self.more)

    def _note(self, reply: Any) -> None:
        of_reply = Completeness.of(reply.completeness)
        before = self._completeness or replace(of_reply, errors=0)
        self._completeness = replace(before, errors=before.errors + of_reply.errors)


def _rows_of(reply: Any) -> list[bytes]:
    """Split the bits of a reply into the rows of its queries."""
    size = -(-(reply.next_id - reply.first_id) // 8)
    return [reply.bits[size * at : size * (at + 1)] for at in range(len(reply.query_ids))]
