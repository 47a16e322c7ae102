"""The answers of many queries as one table: rows with the place of their query, completeness, and failures.

    _query   sym   price
         0   IBM    12.5      of the first query of the call
         3   IBM    12.5      of the fourth; the second and the third have no rows, or are among the failures

Places are numbers in the order of the call, from 0; `query_id` gives the query of a place.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup_client import html
from psoup_client.answer import Answer, rows_of
from psoup_client.completeness import Completeness
from psoup_client.errors import PSoupError, ServerFault, from_failure
from psoup_client.inputs import PandasOptions
from psoup_client.payload import read
from psoup_client.phrases import counted
from psoup_client.queries import AnyQueries, ranges_of
from psoup_client.query import AnyQuery, ids_of
from psoup_client.tags import check_labels
from psoup_client.text_table import text_table, write_parquet
from psoup_proto.column_names import unique_names
from psoup_proto.v1 import queries_pb2

if TYPE_CHECKING:
    import pandas
    import polars

PLACE = "_query"
"""The name of the first column."""

_FEW = 1_000
"""The greatest number of IDs that a request has as texts. More IDs go as numbers, in a tenth of the bytes."""


class Places(Sequence[int]):
    """Places of queries in a call, ascending, as ranges, so that a million places take little memory."""

    __slots__ = ("_counts", "_ends", "_firsts")

    def __init__(self, firsts: Iterable[int], counts: Iterable[int]) -> None:
        self._firsts = list(firsts)
        self._counts = list(counts)
        self._ends = list(accumulate(self._counts))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[place] for place in range(len(self))[at]]
        at = range(len(self))[at]
        part = bisect_right(self._ends, at)
        return self._firsts[part] + at - (self._ends[part] - self._counts[part])

    def __contains__(self, place: object) -> bool:
        if not isinstance(place, int):
            return False
        part = bisect_right(self._firsts, place) - 1
        return part >= 0 and place < self._firsts[part] + self._counts[part]

    def __iter__(self) -> Iterator[int]:
        return (place for places in self.ranges() for place in places)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = [f"{part[0]}" if len(part) == 1 else f"{part[0]} to {part[-1]}" for part in self.ranges()[:4]]
        return f"<{counted(len(self), 'place')}: {', '.join(shown)}{', …' if len(self._firsts) > 4 else ''}>"

    def ranges(self) -> list[range]:
        """Give the places as ranges, ascending."""
        pairs = zip(self._firsts, self._counts, strict=True)
        return [range(first, first + count) for first, count in pairs]


class _Numbered:
    """A sequence of query IDs, stored as a common prefix and numbers."""

    def __init__(self, prefix: str, numbers: Places) -> None:
        self._prefix = prefix
        self._numbers = numbers

    def __getitem__(self, place: int) -> str:
        return f"{self._prefix}{self._numbers[place]}"


_Ids = Sequence[str] | AnyQueries[Any] | _Numbered


@dataclass(frozen=True, slots=True)
class TableGroup(html.Facts):
    """Queries of a call that see the same streams through the same windows: how complete their answers are.

    `errors` and `select_errors` of the completeness are counted for each query.
    """

    completeness: Completeness
    places: Places


@dataclass(frozen=True, slots=True)
class TableFailure(html.Facts):
    """Queries of a call that have no answer, and why; the error may stand for many of them."""

    error: PSoupError
    places: Places


class AnswerTable:
    """The answers of many queries, in memory: a collection of rows as dicts. `queries`: the number of requested
    queries.

    The first column, `_query`, is the place of a row's query in the call; the other columns are those of its answer.
    Rows come in the order of places. Polars, DuckDB, pandas and PyArrow read the table without a copy. `completeness`
    has an entry for each set of streams and windows. Each query belongs to one of these entries, or is among the
    `failures`.
    """

    def __init__(
        self,
        table: pa.Table,
        queries: int,
        ids: _Ids,
        completeness: tuple[TableGroup, ...],
        failures: tuple[TableFailure, ...],
    ) -> None:
        self._table = table
        self._ids = ids
        self._places: Any = None
        self.queries = queries
        self.completeness = completeness
        self.failures = failures

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        names = self.columns
        return (dict(zip(names, row, strict=True)) for row in rows_of(self._table))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the rows through Arrow's C stream interface."""
        return self._table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        size, _, state = self.sentence().partition(". ")
        return text_table(self._table, size.removesuffix("."), state)

    def sentence(self) -> str:
        """Say in words how many rows, queries and failures there are, and whether anything can change."""
        failed = sum(len(failure.places) for failure in self.failures)
        parts = [f"{counted(len(self), 'row')} of {counted(self.queries - failed, 'query')}"]
        if failed:
            reasons = ", ".join(sorted({failure.error.reason for failure in self.failures}))
            parts.append(f"{counted(failed, 'query')} without an answer ({reasons})")
        if len(self.completeness) > 1:
            parts.append("final" if self.final else "may still grow")
        text = "; ".join(parts) + "."
        return f"{text} {self.completeness[0].completeness.sentence()}" if len(self.completeness) == 1 else text

    @property
    def final(self) -> bool:
        """Whether no tuple can change any of the answers."""
        return all(group.completeness.final for group in self.completeness)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema: `_query`, then the columns of the answers."""
        return self._table.schema

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, each different, as of `Answer.columns`."""
        return unique_names(self._table.schema.names)

    @property
    def batches(self) -> list[pa.RecordBatch]:
        """The rows as record batches. Nothing is copied."""
        return list(self._table.to_batches())

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table. Nothing is copied."""
        return self._table

    def head(self, rows: int = 5) -> AnswerTable:
        """Return the table of the first rows, with completeness and failures of all queries."""
        part = self._table.slice(0, len(range(len(self))[:rows]))
        return AnswerTable(part, self.queries, self._ids, self.completeness, self.failures)

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the rows to a Parquet file, as `Answer.to_parquet` does."""
        write_parquet(self._table.to_batches(), self._table.schema, path)

    def to_pandas(self, *, nullable: bool = False, **options: Unpack[PandasOptions]) -> pandas.DataFrame:
        """Return the rows as a pandas frame; needs pandas. Arguments as of `Answer.to_pandas`."""
        return self._whole().to_pandas(nullable=nullable, **options)

    def to_polars(self) -> polars.DataFrame:
        """Return the rows as a Polars frame; needs polars."""
        return self._whole().to_polars()

    def query_id(self, place: int) -> str:
        """The ID of the query at a place."""
        query: AnyQuery | str = self._ids[range(self.queries)[place]]
        return query if isinstance(query, str) else query.id

    def rows_of(self, place: int) -> pa.Table:
        """Give the rows of the query at a place, without the column of places; nothing is copied."""
        if self._places is None:
            self._places = self._table.column(0).to_numpy()
        low, high = np.searchsorted(self._places, (place, place + 1)).tolist()
        return self._table.slice(low, high - low).select([*range(1, self._table.num_columns)])

    def _whole(self) -> Answer:
        return Answer(self._table, self.completeness[0].completeness if self.completeness else None)  # type: ignore[arg-type]

    def _repr_html_(self) -> str:
        """Show the first rows in a notebook, and their completeness."""
        rows = self._table.slice(0, html.SHOWN_ROWS).select([*range(min(len(self.columns), html.SHOWN_COLUMNS))])
        cells = zip(*(column.to_pylist() for column in rows.columns), strict=True)
        return html.table(self.columns[: html.SHOWN_COLUMNS], cells) + html.paragraph(self.sentence())


def table_request(
    queries: AnyQueries[Any] | Iterable[AnyQuery | str] | pa.Array | None,
    labels: Mapping[str, str] | None,
    key_prefix: str | None,
) -> tuple[queries_pb2.InvokeTableRequest, Sequence[str] | AnyQueries[Any]]:
    """Build the request for some queries. Also returns their IDs in order, if known."""
    if (queries is not None) + bool(labels) + bool(key_prefix) != 1:
        raise ValueError("say which queries: by their IDs, by labels, or by a prefix of keys")
    check_labels(labels)
    request = queries_pb2.InvokeTableRequest(labels=labels, key_prefix=key_prefix or "")
    if queries is None:
        return request, ()
    if isinstance(queries, AnyQueries):
        request.ranges.extend(ranges_of(queries))
        return request, queries
    ids = queries.to_pylist() if isinstance(queries, pa.Array | pa.ChunkedArray) else [*ids_of(queries)]
    prefix = ids[0].rpartition("-")[0] + "-" if ids else ""
    numbers = _numbers(ids, prefix) if len(ids) > _FEW else None
    if numbers is None:
        request.query_ids.extend(ids)
    else:
        request.query_id_prefix = prefix
        request.numbers.extend(numbers)
    return request, ids


def _numbers(ids: Sequence[str], prefix: str) -> list[int] | None:
    """Return the numbers of IDs that all begin with `prefix`. Returns None if an ID has another form."""
    texts = pa.array(ids, pa.string())
    rest = pc.utf8_slice_codeunits(texts, len(prefix))
    digits = pc.and_(pc.ascii_is_decimal(rest), pc.less(pc.binary_length(rest), 19))
    if not pc.all(pc.and_(pc.starts_with(texts, prefix), digits)).as_py():
        return None
    numbers: list[int] = rest.cast(pa.int64()).to_pylist()
    return numbers


def table_of(replies: Iterator[Any], ids: _Ids) -> AnswerTable:
    """Build a table from the messages of a reply."""
    messages = list(replies)
    if not messages:
        raise ServerFault("the service ended a table before it began")
    first, last = messages[0], messages[-1]
    groups = tuple(TableGroup(Completeness.of(entry.completeness), _places(entry.places)) for entry in last.groups)
    failures = tuple(TableFailure(from_failure(entry.failure), _places(entry.places)) for entry in last.failures)
    if first.query_id_prefix:
        ids = _Numbered(first.query_id_prefix, _places(first.numbers))
    return AnswerTable(read(b"".join(message.arrow_ipc for message in messages)), first.queries, ids, groups, failures)


def _places(message: queries_pb2.Places) -> Places:
    return Places(message.first, message.count)
