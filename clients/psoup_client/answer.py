"""Answers of invocations: rows, and how complete they are.

Answer         the whole answer in memory
AnswerStream   the same piece by piece, for answers that are too large for memory
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Unpack, overload

import pyarrow as pa

from psoup_client import html
from psoup_client.completeness import Completeness
from psoup_client.errors import Cancelled, ServerFault
from psoup_client.inputs import PandasOptions
from psoup_client.ipc_decoder import IpcDecoder
from psoup_client.libraries import library
from psoup_client.phrases import counted
from psoup_client.text_table import text_table, with_unique_names, write_parquet
from psoup_client.times import python_values
from psoup_proto.column_names import unique_names
from psoup_proto.v1 import types_pb2

if TYPE_CHECKING:
    import pandas
    import polars


class Answer:
    """A whole answer. `len()` is its rows; iterating gives a dict for each row, in the answer's order.

    `answer[0]` is a row as a dict, `answer["price"]` a column as an Arrow array, `answer[:10]` an answer of some rows.
    Repetitions of a name in the SELECT list are `k_1`, `k_2`, … in dicts and frames. Arrow has the names as written.
    Polars, DuckDB, pandas and PyArrow read an answer without a copy (`polars.DataFrame(answer)`, `FROM answer` in
    DuckDB's Python). Printed, and in a notebook, it shows its first rows as a table. `query_id` and `key` name the
    invoked query; "" if it has none.
    """

    def __init__(
        self,
        table: pa.Table,
        completeness: Completeness | types_pb2.Completeness,
        query_id: str = "",
        key: str = "",
    ) -> None:
        self._table = table
        self._completeness = completeness
        self.query_id = query_id
        self.key = key

    @property
    def completeness(self) -> Completeness:
        """The completeness of the rows."""
        if not isinstance(self._completeness, Completeness):  # on demand: times are slow to convert
            self._completeness = Completeness.of(self._completeness)
        return self._completeness

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        names = self.columns
        return (dict(zip(names, row, strict=True)) for row in rows_of(self._table))

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Answer: ...
    @overload
    def __getitem__(self, index: str) -> pa.ChunkedArray: ...

    def __getitem__(self, index: int | slice | str) -> dict[str, Any] | Answer | pa.ChunkedArray:
        if isinstance(index, str):
            return self._column(index)
        if isinstance(index, slice):
            return Answer(_sliced(self._table, index), self._completeness)
        try:
            place = range(len(self))[index]
        except IndexError:
            raise IndexError(f"{index}: the answer has {counted(len(self), 'row')}, counted from 0") from None
        except TypeError:
            raise TypeError(f"{index!r}: give a number or a slice for rows, a name for a column") from None
        return dict(zip(self.columns, next(rows_of(self._table.slice(place, 1))), strict=True))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the rows through Arrow's C stream interface."""
        return self._table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return text_table(self._table, counted(len(self), "row"), self.completeness.sentence())

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, each different: a repeated name has an ending, as in `k_1`."""
        return unique_names(self._table.schema.names)

    @property
    def shape(self) -> tuple[int, int]:
        """Counts of rows and columns."""
        return self._table.num_rows, self._table.num_columns

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema: names as written in the SELECT list, and types."""
        return self._table.schema

    def rows(self) -> list[tuple[Any, ...]]:
        """Return all rows as tuples of Python values; NULL is None, a TIMESTAMP an aware datetime in UTC.

        A DATE or TIMESTAMP outside the years 1 to 9999, which Python cannot represent, is a text in ISO 8601.
        """
        return list(rows_of(self._table))

    def head(self, rows: int = 5) -> Answer:
        """Return the answer of the first rows; with a negative number, all but the last ones."""
        return self[:rows]

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table. Nothing is copied."""
        return self._table

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the rows to a Parquet file, with the names of `columns`.

        An existing file is replaced only if all rows were written.
        """
        write_parquet(self._table.to_batches(), self._table.schema, path)

    def to_pandas(self, *, nullable: bool = False, **options: Unpack[PandasOptions]) -> pandas.DataFrame:
        """Return the rows as a pandas frame; needs pandas.

        By default a BIGINT column with NULLs becomes floats, as usual in pandas. With `nullable` columns have pandas'
        own types with NULLs (Int64, boolean, string, ...), so that each value is exact. `options`: options of
        `pyarrow.Table.to_pandas`.
        """
        library("pandas")
        if nullable:
            options.setdefault("types_mapper", _nullable_types().get)
        return with_unique_names(self._table).to_pandas(**options)

    def to_polars(self) -> polars.DataFrame:
        """Return the rows as a Polars frame; needs polars."""
        frame: polars.DataFrame = library("polars").from_arrow(with_unique_names(self._table))
        return frame

    def _repr_html_(self) -> str:
        """Show the first rows in a notebook, and the completeness of the answer."""
        rows, columns = self.shape
        shown = self._table.slice(0, html.SHOWN_ROWS).select([*range(min(columns, html.SHOWN_COLUMNS))])
        table = html.table(self.columns[: html.SHOWN_COLUMNS], rows_of(shown))
        return table + html.paragraph(html.shape_text(rows, columns)) + html.paragraph(self.completeness.sentence())

    def _column(self, name: str) -> pa.ChunkedArray:
        names = self.columns
        if name in names:
            return self._table.column(names.index(name))
        raise KeyError(f"{name!r}: the answer has no such column; its columns are {', '.join(names)}")


def rows_of(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table as tuples of Python values."""
    if not table.num_columns:
        return iter(())
    return zip(*map(python_values, table.columns), strict=True)


def _sliced(table: pa.Table, part: slice) -> pa.Table:
    places = range(table.num_rows)[part]
    return table.slice(places.start, len(places)) if places.step == 1 else table.take(list(places))


def _nullable_types() -> dict[pa.DataType, Any]:
    """Map the Arrow types of answers to the types of pandas that have NULL."""
    pandas = library("pandas")
    return {
        pa.bool_(): pandas.BooleanDtype(),
        pa.int64(): pandas.Int64Dtype(),
        pa.float64(): pandas.Float64Dtype(),
        pa.string(): pandas.StringDtype(),
        pa.large_string(): pandas.StringDtype(),
    }


class AnswerStream:
    """An answer in pieces of about 256 KiB, in bounded memory: iterate over it inside a `with` statement, once.

    A reader of Arrow's C stream interface, such as DuckDB, also reads it piece by piece. All pieces belong to one
    snapshot. The call is cancelled at the end of the block.
    """

    def __init__(self, replies: Generator[Any]) -> None:
        self._replies = replies
        self._abandoned = False
        first = next(self._replies, None)
        if first is None:
            raise ServerFault("the service ended an answer before it began")
        self.completeness = Completeness.of(first.completeness)
        self._decoder = IpcDecoder()
        self._batches = deque(self._decoder.take(first.arrow_ipc))
        while self._decoder.schema is None:
            self._take(next(self._replies, None))
        self.schema: pa.Schema = self._decoder.schema

    def _take(self, reply: Any) -> None:
        """Read a message after the first one. The last message may bring a newer completeness. `reply`: None at the
        end.
        """
        if reply is None:
            self._decoder.end()
            return
        if reply.HasField("completeness"):
            self.completeness = Completeness.of(reply.completeness)
        self._batches.extend(self._decoder.take(reply.arrow_ipc))

    def __repr__(self) -> str:
        return f"<AnswerStream of {', '.join(self.schema.names)}>"

    def __enter__(self) -> AnswerStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while (batch := self._next()) is not None:
            yield batch

    def _next(self) -> pa.RecordBatch | None:
        """Return the next piece, or None after the last one. Raises Cancelled after `close`."""
        while not self._batches:
            if self._abandoned:
                raise Cancelled("the answer was closed before its end")
            try:
                reply = next(self._replies, None)
            except BaseException:  # what comes next is not known, so a further read must not look like the end
                self._abandoned = True
                raise
            self._take(reply)
            if reply is None:
                return None
        return self._batches.popleft()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the remaining pieces. They can be exported or read only once."""
        pieces = pa.RecordBatchReader.from_batches(self.schema, iter(self))
        return pieces.__arrow_c_stream__(requested_schema)

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the rest of the answer to a Parquet file, piece by piece, as `Answer.to_parquet` does."""
        write_parquet(self, self.schema, path)

    def read_all(self) -> Answer:
        """Read the rest of the answer into memory."""
        table = pa.Table.from_batches(list(self), self.schema)
        return Answer(table, self.completeness)

    def close(self) -> None:
        """Cancel the call, if it still runs; what was not read is lost."""
        self._abandoned = True
        self._batches.clear()
        self._replies.close()
