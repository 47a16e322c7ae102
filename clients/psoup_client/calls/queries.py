"""Calls of the QueryService about queries themselves: register, list, price and unregister them."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from psoup_client.amounts import Altered, Amount, altering_of, keeping_of
from psoup_client.arguments import checking_arguments
from psoup_client.bulk import Progress, Tagging, check_replace, lifetime, parameters_of_one, requests_of
from psoup_client.channel.connection import naming
from psoup_client.costs import ORDERS, CostOrder, QueryCost
from psoup_client.explanation import Checked
from psoup_client.html import Listing
from psoup_client.inputs import ParameterRows, Parameters
from psoup_client.payload import split
from psoup_client.queries import Queries
from psoup_client.query import AnyQuery, Query, alter, fetch_info, ids_of, unregister
from psoup_client.query_info import QueryInfo
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
        amount: Amount | None = None,
        eager: bool = False,
        active: bool | None = None,
        parked: bool = False,
        request_id: str | None = None,
    ) -> Query:
        """Register a standing query. It stands after this client has left.

        `params` are the values of its parameters: a list for `?` and `$1`, a dict for `$name`. A datetime without a
        zone is in the client's `timezone`.

        `key` is your own name for the query, unique among standing queries; `labels` are texts to find it by
        (`queries`). A call with the same key, text, params and labels gives the same query while it stands. If the key
        is the same and another of these differs, it raises Conflict, which names the difference. With `replace` it
        gives a new query instead. The old query is unregistered at the same moment, and calls with its ID raise
        NotFound with the new ID as `replaced_by`.

        `expires_after` ("90 days") unregisters the query after this time without a call that names it or finds it by
        its matches. See `queries(expiring=…)`.

        `keep_pairs`: for a join of two streams, the service keeps the pairs of tuples. Then an answer with few pairs is
        quick, however many tuples its sides have. Answers are the same with and without it. Other queries are refused.

        `amount`: how much the service keeps between invocations. "none" keeps nothing: an invocation evaluates the
        window. "partial" keeps which tuples match, and "complete" also the answer. None: the default of the service.
        With `eager`, a complete answer is brought up to date as tuples come; other amounts are refused. With
        `active=False`, tuples do not meet the query as they come, and `matches` and `match` do not find it. It can be
        invoked. With `parked`, the statement of such a query is not in the service's memory: a call that needs it reads
        it from the disk. Answers are the same in all cases. `alter_queries` changes all four.

        Without a key, the same holds for `request_id`; the last 65,536 are kept, also over restarts. Without key and
        request ID, each call makes a query. Raises InvalidStatement, NotSupported or OutOfRange.
        """
        check_key(key)
        check_labels(labels)
        check_replace(replace, key)
        request = queries_pb2.RegisterRequest(
            statement=sql,
            request_id=request_id or uuid.uuid4().hex,
            key=key or "",
            labels=labels,
            replace=replace,
            **keeping_of(amount, eager, active, parked),
        )
        request.expires_after, request.keep_pairs = lifetime(expires_after), keep_pairs
        values = parameters_of_one(sql, params, self.timezone)
        if values is not None:
            request.parameters = next(split(values.table)).data
            request.by_name = values.by_name
        reply = self.connection.call(self.connection.queries.Register, request)
        self.note_sequence(reply.sequence)
        return Query(self, QueryInfo.of(reply.query))

    def check(self, sql: str, *, wait_for: int | None = None, timeout: float | None = None) -> Checked:
        """Describe a SELECT as a standing query, without registering it: columns, windows, plan.

        Raises the errors of `register` for the statement: InvalidStatement with line, column and hint, NotSupported,
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
        amount: Amount | None = None,
        eager: bool = False,
        active: bool | None = None,
        parked: bool = False,
        request_id: str | None = None,
        progress: Progress | None = None,
        timeout: float | None = None,
    ) -> Queries:
        """Register a statement with parameters for each row of values, or a list of statements; in their order.

        The result is a sequence. Its length, elements and slices take no time, also for a million queries.

        `rows`: tuples in the order of the parameters, dicts, an Arrow table, a pandas or Polars frame. They go in parts
        of 8,192 queries, each registered whole or not at all. An error names the query, counted from 1; the parts
        before it stay registered. A repeated call with the same `request_id` and rows continues where the first one
        ended, and gives the same queries. It raises FailedPrecondition if queries of a part were unregistered since.
        Raises the errors of `register`, and InvalidData for values that are not rows of parameters.

        For rows with column names, `key` names the column of keys, and `labels` the columns of labels. Their values are
        texts or whole numbers; NULL means no label. These columns are parameters only if the statement has them as
        `$name`. With keys, a part is accepted if all its keys are new, or if the whole part was registered before with
        the same values. Otherwise Conflict names the first key in use; with `replace`, the queries of the part replace
        all queries with its keys. `expires_after`, `keep_pairs`, `amount`, `eager`, `active` and `parked` are as in
        `register`, for each query.
        """
        parts = self.register_parts(
            sql,
            rows,
            key=key,
            labels=labels,
            replace=replace,
            expires_after=expires_after,
            keep_pairs=keep_pairs,
            amount=amount,
            eager=eager,
            active=active,
            parked=parked,
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
        amount: Amount | None = None,
        eager: bool = False,
        active: bool | None = None,
        parked: bool = False,
        request_id: str | None = None,
        progress: Progress | None = None,
        timeout: float | None = None,
    ) -> Iterator[Queries]:
        """Register as `register_many` does, and give the queries of each part once it is registered."""
        keeping = keeping_of(amount, eager, active, parked)
        tagging = Tagging(key, labels, replace, lifetime(expires_after), keep_pairs, keeping)
        total, requests = requests_of(sql, rows, request_id, tagging, self.timezone)
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
        """List all queries, or the queries on one stream, or with all given `labels`; at most the first `limit`.

        With `expiring` ("7 days"), only queries that expire within that time without a call (`info.expires` has the
        time); a list does not count as a call. Queries come in the order of their registration. A join is on each of
        its streams.

        `include_sides` is for jobs that evaluate queries. It replaces a join by its sides, which are hidden queries
        over one stream each (`info.side_of` has the join). Other calls do not accept IDs of sides.
        """
        check_labels(labels)
        if limit is not None and limit < 0:
            raise ValueError(f"limit is {limit}: give 0 or more")
        request = queries_pb2.ListQueriesRequest(page_size=PAGE, stream=stream or "", labels=labels)
        request.expiring_within, request.include_sides = lifetime(expiring), include_sides
        pages = self._pages(self.connection.queries.ListQueries, request, "queries")
        listed = (Query(self, QueryInfo.of(message)) for message in islice(pages, limit))
        return Listing(listed, "query", lambda query: query.info._listed())

    def unregister(self, query: AnyQuery | str | None = None, *, key: str | None = None) -> None:
        """Forget a query, given as such, by its ID or by its key; raises NotFound."""
        _check_one(query, key)
        unregister(self, next(ids_of([] if query is None else [query]), ""), key or "")

    def unregister_many(
        self,
        queries: Iterable[AnyQuery | str] | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        key_prefix: str | None = None,
        request_id: str | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> int:
        """Unregister several queries at once, all or none; returns their number. With `dry_run`, only counts them.

        They are given as IDs or queries, at most 131,070. Then NotFound is raised if one of them does not exist.
        Or they are all queries with all given `labels`, or with a key that begins with `key_prefix`; there may be none.
        A label name that no query has, while queries have other labels, raises NotFound (UNKNOWN_LABEL).
        A repeated call with the same `request_id` returns the same number.
        """
        ids = _selected(queries, labels, key_prefix)
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

    def alter_queries(
        self,
        queries: Iterable[AnyQuery | str] | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        key_prefix: str | None = None,
        amount: Amount | None = None,
        eager: bool | None = None,
        active: bool | None = None,
        parked: bool | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> Altered:
        """Change how several queries are kept, all or none: their `amount`, and whether they are `eager`, `active` or
        `parked`.

        The arguments are as in `register`; None leaves them as they are. An inactive query remembers its amount. To
        park a query makes it inactive, and to activate it ends its parking. No answer changes. The queries are given as
        in `unregister_many`, with the same errors. With `dry_run`, the call only counts them. A repeated call changes
        nothing. Raises ValueError if there is nothing to change.
        """
        ids = _selected(queries, labels, key_prefix)
        request = altering_of(
            ids, labels, key_prefix, amount=amount, eager=eager, active=active, parked=parked, dry_run=dry_run
        )
        return Altered(0, 0) if queries is not None and not ids else alter(self, request, timeout)

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

        With `labels`, only queries with all of these labels. More than 1,000 queries come in pages, each of its own
        moment. So a query whose figure changes meanwhile may be listed twice, or not at all.
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


def _selected(
    queries: Iterable[AnyQuery | str] | None, labels: Mapping[str, str] | None, key_prefix: str | None
) -> list[str]:
    """The IDs of the queries of a call. Raises ValueError unless one of IDs, labels and prefix selects the queries."""
    check_labels(labels)
    if (queries is not None) + bool(labels) + bool(key_prefix) != 1:
        raise ValueError("say which queries: by their IDs, by labels, or by a prefix of keys")
    return [*ids_of(queries)]


def _check_one(query: AnyQuery | str | None, key: str | None) -> None:
    """Raise ValueError unless exactly one of ID and key names the query."""
    if (query is None) == (key is None):
        raise ValueError("give the query's ID, or its key")
    check_key(key)
