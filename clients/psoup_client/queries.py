"""The queries of one registration, stored as ranges of numbers. A `Query` object is made on access.

    register_many(…)  ->  Queries   q-7f3a91c2-  1 … 8192        two parts of a call: one range, if nothing came between
                                    q-7f3a91c2-  8193 … 16384

A million queries take as much memory as one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Self, TypeVar, overload

from psoup_client import html
from psoup_client.phrases import counted
from psoup_client.query import AnyQuery, Query
from psoup_client.session import Session
from psoup_proto.v1 import queries_pb2

Span = tuple[str, range]
"""The prefix of the IDs of some queries, and the numbers that follow it."""


Q = TypeVar("Q", bound=AnyQuery)


class AnyQueries(Sequence[Q], ABC):
    """A sequence of queries of `Client` or of `AsyncClient`, in the order of their registration. It never changes.

    Equal to any list of queries with the same IDs. A slice is such a sequence, too.
    """

    __slots__ = ("_client", "_ends", "_spans")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, client: Session, spans: Iterable[Span]) -> None:
        self._client = client
        self._spans = list(_joined(spans))
        self._ends = list(accumulate(len(numbers) for _, numbers in self._spans))

    @abstractmethod
    def _query(self, query_id: str) -> Q:
        """Make the query with an ID."""

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, place: int) -> Q: ...

    @overload
    def __getitem__(self, place: slice) -> Self: ...

    def __getitem__(self, place: int | slice) -> Q | Self:
        places = range(len(self))[place]  # raises IndexError
        if isinstance(places, int):
            prefix, number = self._name(places)
            return self._query(f"{prefix}{number}")
        if places.step != 1:
            names = map(self._name, places)
            return type(self)(self._client, ((prefix, range(number, number + 1)) for prefix, number in names))
        starts = (end - len(numbers) for end, (_, numbers) in zip(self._ends, self._spans, strict=True))
        cut = (
            (prefix, numbers[max(places.start - start, 0) : max(places.stop - start, 0)])
            for start, (prefix, numbers) in zip(starts, self._spans, strict=True)
        )
        return type(self)(self._client, cut)

    def _name(self, place: int) -> tuple[str, int]:
        """Return the prefix and the number of the ID at a position."""
        at = bisect_right(self._ends, place)
        prefix, numbers = self._spans[at]
        return prefix, numbers[place - self._ends[at]]

    def __iter__(self) -> Iterator[Q]:
        return (self._query(f"{prefix}{number}") for prefix, numbers in self._spans for number in numbers)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, AnyQueries):
            return self._spans == other._spans
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(mine == query for mine, query in zip(self, other, strict=True))

    def __repr__(self) -> str:
        ends = "" if not self._spans else f", {self[0].id} to {self[-1].id}" if len(self) > 1 else f", {self[0].id}"
        return f"<{counted(len(self), 'query')}{ends}>"

    def _repr_html_(self) -> str:
        """Show the first IDs in a notebook, without a call."""
        rows = [(query.id,) for query in self[: html.SHOWN_ROWS]]
        return html.counted_table(("query",), rows, len(self), "query")


class Queries(AnyQueries[Query]):
    """A sequence of queries, in the order of their registration. It never changes.

    Equal to any list of queries with the same IDs. A slice is such a sequence, too.
    """

    __slots__ = ()

    def _query(self, query_id: str) -> Query:
        return Query(self._client, query_id)

    @staticmethod
    def of(client: Session, ranges: Iterable[queries_pb2.QueryRange]) -> Queries:
        """Convert the ranges on the wire."""
        return Queries(client, ((part.query_id_prefix, range(part.first, part.first + part.count)) for part in ranges))

    @staticmethod
    def together(client: Session, parts: Iterable[Queries]) -> Queries:
        """All queries of some sequences, one after the other."""
        return Queries(client, (span for part in parts for span in part._spans))


def ranges_of(queries: AnyQueries[Any]) -> list[queries_pb2.QueryRange]:
    """Convert the queries to ranges on the wire."""
    spans = queries._spans
    return [
        queries_pb2.QueryRange(query_id_prefix=prefix, first=numbers.start, count=len(numbers))
        for prefix, numbers in spans
    ]


def _joined(spans: Iterable[Span]) -> Iterator[Span]:
    """Join adjacent spans, so that the same queries take as few spans as possible."""
    last: Span | None = None
    for prefix, numbers in spans:
        if not numbers:
            continue
        if last is not None and last[0] == prefix and last[1].stop == numbers.start:
            last = prefix, range(last[1].start, numbers.stop)
            continue
        if last is not None:
            yield last
        last = prefix, numbers
    if last is not None:
        yield last
