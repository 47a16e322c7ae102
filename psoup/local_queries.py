"""The calls of `LocalPSoup` about queries: they register, list, alter and unregister them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from psoup.answer.describe import QueryFilter, list_queries
from psoup.answer.tuples.match_tags import keys_of
from psoup.engine.engine import Engine
from psoup.events.acknowledgements import (
    Acknowledgement,
    AlterationAcknowledgement,
    QueriesAcknowledgement,
    QueryAcknowledgement,
    RemovalAcknowledgement,
)
from psoup.events.commands import AlterQueries, Command, Register, RegisterMany, Unregister, UnregisterMany
from psoup.events.tags import tag_of
from psoup.model import DEFAULT_TENANT
from psoup.plan.amounts import AS_USUAL, AUTOMATIC, Amount, Keeping, KeepingChange
from psoup.plan.standing_query import Parameter
from psoup.published.lifetimes import DAY
from psoup.sql.lifetime import lifetime_days
from psoup.work.clock import Clock

_NAMED = re.compile(r"\$[A-Za-z_]")
"""A parameter with a name."""


class LocalQueries:
    """The queries of an engine in this process, for one caller. Errors are from `psoup.errors`."""

    engine: Engine
    clock: Clock
    tenant: str = DEFAULT_TENANT

    def submit(self, command: Command) -> Acknowledgement:
        """Prepare and apply one command."""
        raise NotImplementedError

    def register(
        self,
        sql: str,
        request_id: str = "",
        *,
        key: str = "",
        labels: Mapping[str, str] | None = None,
        replace: bool = False,
        expires_after: str = "",
        keep_pairs: bool = False,
        keeping: Keeping = AS_USUAL,
    ) -> int:
        """Register a query, with the caller's key and labels. Returns its ID.

        `replace`: the new query replaces the query with the same key. Errors for the old ID name the new one.
        `expires_after`: a time, such as "90 days". Without an invocation for so long, `maintain` unregisters the query.
        `keep_pairs`: the engine keeps the pairs of a join of two streams. `keeping`: the amount that it keeps.
        """
        more = tag_of(key, labels), replace, expires_after, keep_pairs, keeping
        answer = self.submit(Register(sql, request_id, self.tenant, *more))
        assert isinstance(answer, QueryAcknowledgement)
        return answer.query_id

    def register_many(
        self,
        sql: str | Sequence[str],
        rows: Sequence[Sequence[Parameter]] | pa.Table | None = None,
        request_id: str = "",
        *,
        key: str = "",
        labels: Sequence[str] = (),
        replace: bool = False,
        expires_after: str = "",
        keep_pairs: bool = False,
        keeping: Keeping = AS_USUAL,
    ) -> range:
        """Register several queries, all or none: statements, or one with parameters for each row of values.

        Returns their IDs. `key`, `labels`: columns of a table of rows. A parameter `$name` takes the column of its
        name. Other parameters take the remaining columns in order. Other arguments are as for `register`.
        """
        statements = [sql] if isinstance(sql, str) else sql
        names = tuple(rows.column_names) if isinstance(rows, pa.Table) and _NAMED.search(statements[0]) else ()
        tags = (None, key, tuple(labels), replace, expires_after, keep_pairs, keeping)
        answer = self.submit(RegisterMany(statements, rows, request_id, self.tenant, names, 1, *tags))
        assert isinstance(answer, QueriesAcknowledgement)
        return range(answer.first_id, answer.first_id + answer.count)

    def query(self, key: str) -> int:
        """The ID of the query with that key. Raises NotFound."""
        return self.engine.snapshot().query_with(key, self.tenant).query_id

    def keys(self, query_ids: Sequence[int]) -> list[str]:
        """The keys of some queries, such as the matches of a tuple. A query without a key has ""."""
        return keys_of(self.engine.snapshot(), query_ids)

    def queries(
        self, stream: str | None = None, *, labels: Mapping[str, str] | None = None, expiring: str = ""
    ) -> list[int]:
        """IDs of queries: those on `stream`, with all `labels`, that expire within the time `expiring` ("7 days")."""
        if expiring:
            self.engine.snapshot().lifetimes.tick(self.clock.now())
        until = self.clock.now() + lifetime_days(expiring) * DAY if expiring else None
        only = QueryFilter(stream, tag_of("", labels).labels, until)
        records = list_queries(self.engine.snapshot(), tenant=self.tenant, limit=2**62, only=only)
        return [record.query_id for record in records]

    def unregister(self, query_id: int) -> None:
        """Unregister a query."""
        self.submit(Unregister(query_id, self.tenant))

    def unregister_many(
        self,
        query_ids: Sequence[int] | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        key_prefix: str = "",
        request_id: str = "",
    ) -> int:
        """Unregister queries by their IDs, by labels, or by the prefix of their keys. Returns their number."""
        ids = None if query_ids is None else np.array(query_ids, np.int64)
        answer = self.submit(UnregisterMany(ids, tag_of("", labels).labels, key_prefix, request_id, self.tenant))
        assert isinstance(answer, RemovalAcknowledgement)
        return answer.count

    def alter_queries(
        self,
        query_ids: Sequence[int] | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        key_prefix: str = "",
        amount: Amount | None = None,
        eager: bool | None = None,
        active: bool | None = None,
        parked: bool | None = None,
        auto: bool = False,
    ) -> int:
        """Change how queries are kept. The queries are selected as in `unregister_many`.

        None leaves a part as it is. `auto`: the engine chooses the amount from now on, instead of `amount`. Returns the
        number of queries that were kept otherwise before.
        """
        ids = None if query_ids is None else np.array(query_ids, np.int64)
        change = KeepingChange(AUTOMATIC.amount if auto else amount, eager, active, parked, auto)
        answer = self.submit(AlterQueries(ids, tag_of("", labels).labels, key_prefix, change, self.tenant))
        assert isinstance(answer, AlterationAcknowledgement)
        return answer.changed
