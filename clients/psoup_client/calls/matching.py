"""Calls of the MatchingService: queries that rows would match, without storing them, and reasons for an answer.

rows ── messages ──> Match ──> the first k rows with their queries ──> a table of pairs
                       ^                        |
                       '── the remaining rows ──'
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from psoup_client import html
from psoup_client.arguments import checking_arguments
from psoup_client.channel.connection import naming
from psoup_client.columns.zones import instant
from psoup_client.errors import InvalidData
from psoup_client.inputs import Row, Rows
from psoup_client.payload import read, split
from psoup_client.phrases import counted
from psoup_client.query import ONE_MESSAGE_BYTES, AnyQuery, get_query
from psoup_client.results import Results, gathered
from psoup_client.session import Session
from psoup_client.tags import check_key, check_labels
from psoup_client.times import Instant, to_proto
from psoup_client.tuple_reasons import Why, step_of, stream_of
from psoup_proto.v1 import matching_pb2

_ROWS = 16_384
"""The number of rows in a message. Rows whose pairs do not fit the reply are sent again."""


@dataclass(frozen=True, slots=True)
class MatchResult(html.Facts):
    """The queries that rows would match, as `pairs`: `row` (int64, from 0, ascending), `query_id`, `key`, and labels.

    `rows`: how many were looked at; `late` and `ahead`: how many of them a push would refuse, which match nothing.
    `sequence`: the last event that the first of them reflect.
    """

    pairs: pa.Table
    rows: int
    late: int
    ahead: int
    sequence: int

    def __repr__(self) -> str:
        return f"<MatchResult: {counted(self.rows, 'row')}, {counted(len(self.pairs), 'match')}>"

    def _repr_html_(self) -> str:
        """Show the first pairs in a notebook."""
        columns = [column.to_pylist() for column in self.pairs.slice(0, html.SHOWN_ROWS).columns]
        shown = html.counted_table(self.pairs.schema.names, zip(*columns, strict=True), len(self.pairs), "match")
        refused = f", {self.late:,} too late, {self.ahead:,} too far ahead" if self.late or self.ahead else ""
        return shown + html.paragraph(f"{counted(self.rows, 'row')} looked at{refused}")

    def query_ids(self) -> list[list[str]]:
        """Give for each row the IDs of the queries that it would match."""
        return self._by_row("query_id")

    def query_keys(self) -> list[list[str]]:
        """Give for each row the keys of the queries that it would match; those without a key are left out."""
        return self._by_row("key")

    def _by_row(self, name: str) -> list[list[str]]:
        rows: list[list[str]] = [[] for _ in range(self.rows)]
        for row, text in zip(self.pairs["row"].to_pylist(), self.pairs[name].to_pylist(), strict=True):
            if text is not None:
                rows[row].append(text)
        return rows


@checking_arguments
class MatchingCalls(Session):
    """Calls that hold tuples and queries against each other."""

    def why(
        self,
        query: AnyQuery | str | None = None,
        tuple: int | Row | Rows | None = None,
        *,
        key: str | None = None,
        source: str | None = None,
        as_of: Instant | None = None,
        wait_for: int | None = None,
        timeout: float | None = None,
    ) -> Why:
        """Explain why a tuple is in the answer of a query, or why not: each condition with its values and verdict.

        `key` names the query instead of `query`. `tuple` is the ID of a tuple, or a row that is not pushed (a dict).
        `source`: for a query over several sources, the name of the tuple's source in the statement. The partners of the
        tuple follow then; a row that is not pushed has none. GROUP BY, HAVING, ORDER BY, DISTINCT and LIMIT are not
        evaluated. Raises OutOfRange for a tuple that never existed, or waits for the watermark.
        """
        check_key(key)
        if not isinstance(query, AnyQuery | str) and (query is not None or key is None):
            raise TypeError(f"query is {query!r}: give a query or its ID, or a key")
        if query is not None and key is not None:
            raise ValueError("give a query or a key, not both")
        query_id = query.id if isinstance(query, AnyQuery) else query or ""
        request = matching_pb2.WhyRequest(query_id=query_id, key=key or "", source=source or "")
        if as_of is not None:
            request.as_of.CopyFrom(to_proto(instant(as_of, self.timezone)))
        if isinstance(tuple, int | Integral):  # also NumPy's integers, as frames have them
            if not -(2**63) <= int(tuple) < 2**63:
                raise ValueError(f"tuple is {tuple}, which is out of the range of 64 bits")
            request.tuple_id = int(tuple)
        elif isinstance(tuple, str | bytes | float | None):
            raise TypeError(f"tuple is {tuple!r}: give the ID of a tuple, a whole number, or a row, a dict")
        else:
            message = get_query(self, query_id, key or "", timeout)
            table = self.convert(stream_of(message, source or ""), [tuple] if isinstance(tuple, Mapping) else tuple)
            if table.num_rows != 1:
                raise InvalidData(f"these are {table.num_rows} rows; why is asked of one")
            request.arrow_ipc = next(split(table)).data
        reply = self._read(self.connection.matching.Why, request, wait_for, timeout)
        return Why([step_of(step) for step in reply.steps], int(reply.sequence))

    def matches_table(
        self,
        stream: str,
        first: int,
        end: int,
        *,
        labels: Mapping[str, str] | None = None,
        label_columns: Sequence[str] = (),
        wait_for: int | None = None,
        timeout: float | None = None,
    ) -> pa.Table:
        """Find the queries that the tuples with IDs from `first` to before `end` matched. Windows are not applied.

        The table has the columns `tuple_id` (int64, ascending), `query_id`, `key` (NULL for a query without one), and a
        column for each label in `label_columns`. With `labels`, only queries with all of these labels. Raises
        OutOfRange for a tuple that does not exist, or waits for the watermark.
        """
        check_labels(labels)
        request = matching_pb2.MatchesBetweenRequest(
            stream=stream,
            first_id=first,
            end_id=end,
            max_bytes=ONE_MESSAGE_BYTES,
            labels=labels,
            keys=True,
            label_columns=_names_of(label_columns, "tuple_id"),
        )
        tables = [_named(_NO_PAIRS.rename_columns(["tuple_id", "query"]), "", label_columns)]
        while request.first_id < end:
            reply = self._read(self.connection.matching.MatchesBetween, request, wait_for, timeout)
            tables.append(_named(read(reply.arrow_ipc), reply.query_id_prefix, label_columns))
            request.first_id, request.after_query_id = reply.next_id, reply.after_query_id
        return pa.concat_tables(tables)

    def results(
        self,
        stream: str,
        queries: Iterable[AnyQuery | str] | None = None,
        begin: Instant | None = None,
        end: Instant | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        ids: range | None = None,
        last: int | None = None,
        limit: int | None = None,
        accept_truncation: bool = False,
        wait_for: int | None = None,
        timeout: float | None = None,
    ) -> Results:
        """Find the tuples of a window that satisfy each query, as bits, so that `&` and `|` combine sets of tuples.

        `queries`: queries, IDs or keys (a text in the form of an ID is an ID). Or `labels`: all queries with these
        labels. The default is all queries on the stream. At most the first `limit` queries are taken; their own windows
        are not applied. The window has the tuples with times from `begin` to `end`, both included, and with `ids`;
        `last` takes only the last tuples of these. More than 1 GiB of bits raises ResourceExhausted before any work.
        `timeout` is for each call, which has some megabytes.

        Raises NotFound, InvalidRequest for a query on another stream, and OutOfRange for tuples that are not kept (see
        `accept_truncation`) or leave during the call.
        """
        request = matching_pb2.ResultsRequest(
            stream=stream,
            last=last or 0,
            limit=limit or 0,
            accept_truncation=accept_truncation,
            max_bytes=ONE_MESSAGE_BYTES,
        )
        if begin is not None:
            request.begin.CopyFrom(to_proto(begin))
        if end is not None:
            request.end.CopyFrom(to_proto(end))
        if ids is not None:
            request.first_id, request.end_id = ids.start, ids.stop

        def call(part: Any) -> Any:
            return self._read(self.connection.matching.Results, part, wait_for, timeout)

        return gathered(call, request, queries, labels)

    def match(
        self,
        stream: str,
        data: Rows,
        *,
        labels: Mapping[str, str] | None = None,
        label_columns: Sequence[str] = (),
        wait_for: int | None = None,
        timeout: float | None = None,
    ) -> MatchResult:
        """Find the standing queries that rows would match if they were pushed now; nothing is stored.

        `data` and the errors are as in `push`. Windows are not applied. It is as fast as a push, because the rows of a
        call are evaluated together. All pairs are in memory; `match_pages` gives them in pages. `labels` and
        `label_columns` are as in `matches_table`.
        """
        pages = list(
            self.match_pages(
                stream, data, labels=labels, label_columns=label_columns, wait_for=wait_for, timeout=timeout
            )
        )
        return MatchResult(
            pa.concat_tables([page.pairs for page in pages] or [_named(_NO_PAIRS, "", label_columns)]),
            pages[-1].rows if pages else 0,
            sum(page.late for page in pages),
            sum(page.ahead for page in pages),
            pages[0].sequence if pages else 0,
        )

    def match_pages(
        self,
        stream: str,
        data: Rows,
        *,
        labels: Mapping[str, str] | None = None,
        label_columns: Sequence[str] = (),
        wait_for: int | None = None,
        timeout: float | None = None,
    ) -> Iterator[MatchResult]:
        """Give the result of `match` page by page. A page has at most some megabytes, and belongs to one published
        state.

        `rows` of a page counts the finished rows. The pairs of a row with very many queries are in several pages.
        """
        check_labels(labels)
        request = matching_pb2.MatchRequest(
            stream=stream,
            max_bytes=ONE_MESSAGE_BYTES,
            labels=labels,
            keys=True,
            label_columns=_names_of(label_columns, "row"),
        )
        table, done = self.convert(stream, data), 0
        while done < table.num_rows:
            for payload in split(table.slice(done, _ROWS)):
                request.arrow_ipc = payload.data
                for page in self._match(request, table.slice(done, payload.rows), done, wait_for, timeout):
                    yield page
                    done = page.rows

    def _match(
        self,
        request: matching_pb2.MatchRequest,
        sent: pa.Table,
        first: int,
        wait_for: int | None,
        timeout: float | None,
    ) -> Iterator[MatchResult]:
        """Match the rows of one message and yield the pages of pairs.

        `first`: the number of the message's first row.
        """
        done, request.after_query_id = 0, ""
        while done < sent.num_rows:
            names = naming(len(request.arrow_ipc), request.stream)
            reply = self._read(self.connection.matching.Match, request, wait_for, timeout, names)
            pairs = _named(read(reply.arrow_ipc), reply.query_id_prefix, request.label_columns)
            pairs = pairs.set_column(0, "row", pc.add(pairs["row"], first + done))
            done, request.after_query_id = done + reply.rows, reply.after_query_id
            yield MatchResult(pairs, first + done, reply.late, reply.ahead, reply.sequence)
            if done < sent.num_rows:
                request.arrow_ipc = next(split(sent.slice(done))).data


_NO_PAIRS = pa.table({"row": pa.array([], pa.int64()), "query": pa.array([], pa.int64())})


def _names_of(label_columns: object, first: str) -> Sequence[str]:
    """Check the names of labels. Raises TypeError; ValueError if two columns would have one name."""
    if isinstance(label_columns, str) or not isinstance(label_columns, Sequence):
        raise TypeError(f"label_columns is {label_columns!r}: give a list of names of labels")
    for name in label_columns:
        if not isinstance(name, str):
            raise TypeError(f"label_columns has {name!r}: give names of labels")
        if name in (first, "query_id", "query", "key") or label_columns.count(name) > 1:
            raise ValueError(f"label_columns has {name!r}, which would be the name of two columns")
    return label_columns


def _named(pairs: pa.Table, prefix: str, labels: Sequence[str]) -> pa.Table:
    """Replace the numbers of queries by their IDs, and add missing columns of keys and labels with NULL."""
    query_ids = pc.binary_join_element_wise(prefix, pc.cast(pairs["query"], pa.string()), "")
    pairs = pairs.set_column(1, "query_id", query_ids)
    for place, name in enumerate(("key", *labels), 2):
        if name not in pairs.column_names:
            pairs = pairs.add_column(place, name, pa.nulls(len(pairs), pa.string()))
    return pairs
