"""Calls of the QueryService about queries themselves: they are registered, listed, priced and forgotten."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from psoup_client.arguments import checking_arguments
from psoup_client.bulk import Progress, Tagging, check_replace, lifetime, parameters_of_one, requests_of
from psoup_client.connection import naming
from psoup_client.costs import ORDERS, CostOrder, QueryCost
from psoup_client.explanation import Checked
from psoup_client.html import Listing
from psoup_client.inputs import ParameterRows, Parameters
from psoup_client.payload import split
from psoup_client.queries import Queries
from psoup_client.query import Query, fetch_info, ids_of, unregister
from psoup_client.schema import QueryInfo
from psoup_client.session import PAGE, Session
from psoup_client.tags import check_key, check_labels
from psoup_proto.v1 import queries_pb2


@checking_arguments
class QueryCalls(Session):
    """Calls about standing queries, but for their answers."""

    def register(
        self,
        sql: str,
        params: Parameters = None,
        *,
        key: str | None = None,
        labels: Mapping[str, str] | None = None,
        replace: bool = False,
        expires_after: str | dt.timedelta | None = None,
        keep_pairs: bool = False,
        request_id: str | None = None,
    ) -> Query:
        """Register a standing query; it stays when this client goes.

        `params` are the values of its parameters: a list for `?` and `$1`, a dict for `$name`.

        `key` is a name of your own for the query, unique among those that stand; `labels` are texts to find it by
        (`queries`). A call with the same key, text, params and labels gives the same query as long as that stands;
        the same key with others raises Conflict, which says what differs. With `replace` it gives a new query then, in
        the place of the old one: that is unregistered at the same moment, and calls with its ID raise NotFound with
        the new ID as `replaced_by`.

        `expires_after` ("90 days") unregisters the query when it is not asked for so long: when no call names it or
        finds it by its matches. See `queries(expiring=…)`.

        `keep_pairs`: of a join of two streams, the service keeps which tuples belong together, so that an answer with
        few of them comes soon however many tuples its sides have. No answer depends on it. Other queries are refused.

        Without a key, the same goes for `request_id`, of which the last 65,536 are kept, over restarts. Without either,
        each call makes a query. Raises InvalidStatement, NotSupported or OutOfRange.
        """
        check_key(key)
        check_labels(labels)
        check_replace(replace, key)
        request = queries_pb2.RegisterRequest(
            statement=sql, request_id=request_id or uuid.uuid4().hex, key=key or "", labels=labels, replace=replace
        )
        request.expires_after, request.keep_pairs = lifetime(expires_after), keep_pairs
        values = parameters_of_one(sql, params)
        if values is not None:
            request.parameters = next(split(values.table)).data
            request.by_name = values.by_name
        reply = self.connection.call(self.connection.queries.Register, request)
        self.note_sequence(reply.sequence)
        return Query(self, QueryInfo.of(reply.query))

    def check(self, sql: str, *, wait_for: int | None = None, timeout: float | None = None) -> Checked:
        """Say what a SELECT would be as a standing query, without registering it: columns, windows, plan.

        Raises what `register` raises for the statement: InvalidStatement with line, column and hint, NotSupported,
        OutOfRange.
        """
        request = queries_pb2.CheckRequest(statement=sql)
        return Checked.of(self._read(self.connection.queries.Check, request, wait_for, timeout))

    def register_many(
        self,
        sql: str | Sequence[str],
        rows: ParameterRows | None = None,
        *,
        key: str | None = None,
        labels: Sequence[str] = (),
        replace: bool = False,
        expires_after: str | dt.timedelta | None = None,
        keep_pairs: bool = False,
        request_id: str | None = None,
        progress: Progress | None = None,
        timeout: float | None = None,
    ) -> Queries:
        """Register a statement with parameters for each row of values, or a list of statements; in their order.

        The queries are a sequence, whose length, elements and slices are there at once: of a million queries, too.

        `rows`: tuples in the order of the parameters, dicts, an Arrow table, a pandas or Polars frame. They go in parts
        of 8,192 queries, each registered whole or not at all; an error names the query, counted from 1, and leaves the
        parts before it in. A call that is repeated with the same `request_id` and rows takes up where it ended, and
        gives the same queries; FailedPrecondition if some of a part were unregistered since. Raises as `register`;
        InvalidData for values that are not rows of parameters.

        `key` names the column with their keys, `labels` the columns with their labels, for rows that have names of
        columns; texts, or whole numbers as texts, NULL for no label. They are not parameters, unless the statement has
        them as `$name`. With keys a part is taken as a whole: all of them are new, or it was registered before with the
        same values; else Conflict names the first key that is taken, or with `replace` the new queries of the part take
        the place of all that have its keys. `expires_after` and `keep_pairs` are those of
        `register`, for each of them.
        """
        parts = self.register_parts(
            sql,
            rows,
            key=key,
            labels=labels,
            replace=replace,
            expires_after=expires_after,
            keep_pairs=keep_pairs,
            request_id=request_id,
            progress=progress,
            timeout=timeout,
        )
        return Queries.together(self, parts)

    def register_parts(
        self,
        sql: str | Sequence[str],
        rows: ParameterRows | None = None,
        *,
        key: str | None = None,
        labels: Sequence[str] = (),
        replace: bool = False,
        expires_after: str | dt.timedelta | None = None,
        keep_pairs: bool = False,
        request_id: str | None = None,
        progress: Progress | None = None,
        timeout: float | None = None,
    ) -> Iterator[Queries]:
        """Register as `register_many` does, and give the queries of each part once it is registered."""
        tagging = Tagging(key, labels, replace, lifetime(expires_after), keep_pairs)
        total, requests = requests_of(sql, rows, request_id, tagging)
        done = 0
        for request in requests:
            reply = self.connection.call(
                self.connection.queries.RegisterMany, request, timeout, names=naming(request.ByteSize())
            )
            self.note_sequence(reply.sequence)
            queries = Queries.of(self, reply.ranges)
            done += len(queries)
            yield queries
            if progress is not None:
                progress(done, total)

    def query(self, query_id: str | None = None, *, key: str | None = None) -> Query:
        """Return the query with this ID, or with this key; raises NotFound."""
        _check_one(query_id, key)
        return Query(self, fetch_info(self, query_id or "", key or ""))

    def queries(
        self,
        stream: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        expiring: str | dt.timedelta | None = None,
        include_sides: bool = False,
        limit: int | None = None,
    ) -> list[Query]:
        """List all queries, or those on one stream, or that have all of some `labels`; the first `limit` of them.

        With `expiring` ("7 days"), those that expire within that time if they are not asked (`info.expires` says when);
        to be in a list is not to be asked. They come in the order of their registration. A join is on each of its
        streams.

        `include_sides` is for jobs that evaluate queries: in place of joins come their sides, the statements over one
        stream that a join is kept as (`info.side_of` has the join). Other calls do not know their IDs.
        """
        check_labels(labels)
        if limit is not None and limit < 0:
            raise ValueError(f"limit is {limit}: give 0 or more")
        request = queries_pb2.ListQueriesRequest(page_size=PAGE, stream=stream or "", labels=labels)
        request.expiring_within, request.include_sides = lifetime(expiring), include_sides
        pages = self._pages(self.connection.queries.ListQueries, request, "queries")
        listed = (Query(self, QueryInfo.of(message)) for message in islice(pages, limit))
        return Listing(listed, "query", lambda query: query.info._listed())

    def unregister(self, query: Query | str | None = None, *, key: str | None = None) -> None:
        """Forget a query, given as such, by its ID or by its key; raises NotFound."""
        _check_one(query, key)
        unregister(self, next(ids_of([] if query is None else [query]), ""), key or "")

    def unregister_many(
        self,
        queries: Iterable[Query | str] | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        key_prefix: str | None = None,
        request_id: str | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> int:
        """Forget some queries at once, all or none; returns how many. With `dry_run`, only counts them.

        They are given by their IDs (or as queries), some 200,000 at most, and NotFound is raised if one of them is
        not there; or they are all that have all of some `labels`, or a key that begins with `key_prefix`, which may be
        none. A call that is repeated with the same `request_id` returns the same number.
        """
        check_labels(labels)
        if (queries is not None) + bool(labels) + bool(key_prefix) != 1:
            raise ValueError("say which queries: by their IDs, by labels, or by a prefix of keys")
        ids = [*ids_of(queries)]
        if queries is not None and not ids:
            return 0
        request = queries_pb2.UnregisterManyRequest(
            query_ids=ids,
            labels=labels,
            key_prefix=key_prefix or "",
            request_id=request_id or uuid.uuid4().hex,
            dry_run=dry_run,
        )
        reply = self.connection.call(self.connection.queries.UnregisterMany, request, timeout)
        self.note_sequence(reply.sequence)
        return reply.count

    def top_queries(
        self,
        by: CostOrder = "cpu",
        *,
        stream: str | None = None,
        labels: Mapping[str, str] | None = None,
        limit: int | None = 20,
        wait_for: int | None = None,
    ) -> list[QueryCost]:
        """Return the queries that cost most, at most `limit` (None: all), by "cpu", "candidates", "matched" or "bytes".

        With `labels`, only queries that have all of these. More than 1,000 come in pages, each of its own moment: a
        query whose figure changes meanwhile may be there twice, or not at all.
        """
        check_labels(labels)
        if by not in ORDERS:
            raise ValueError(f"queries cannot be ordered by {by!r}; take one of {', '.join(ORDERS)}")
        if limit is not None and limit < 0:
            raise ValueError(f"limit is {limit}: give 0 or more")
        page = PAGE if limit is None else min(limit, PAGE)
        request = queries_pb2.TopQueriesRequest(order=ORDERS[by], limit=page, stream=stream or "", labels=labels)
        pages = self._pages(self.connection.queries.TopQueries, request, "costs", wait_for)
        return Listing(map(QueryCost.of, islice(pages, limit)), "query", QueryCost._facts)


def _check_one(query: Query | str | None, key: str | None) -> None:
    """Raise ValueError unless a query is named by either its ID or its key."""
    if (query is None) == (key is None):
        raise ValueError("give the query's ID, or its key")
    check_key(key)
