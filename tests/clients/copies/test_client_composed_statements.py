"""Statements over several sources in all calls: copies, many answers, tables, follow, kept pairs, lists."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from psoup_client import Client, InvalidRequest, Query
from psoup_proto.v1.queries_pb2 import InvokeRowsRequest
from psoup_testing.services.threaded_service import serving

LEFT = "SELECT r.a, s.b FROM r LEFT JOIN s ON r.k = s.k AND s.b > 'a' BEGIN (NOW - 30 ROWS)"
FORMS = (
    LEFT,
    "SELECT r.a, s.b FROM r FULL JOIN s ON r.k = s.k BEGIN (NOW - 30 ROWS)",
    "SELECT a FROM r WHERE k IN (SELECT k FROM s) BEGIN (NOW - 30 ROWS)",
    "SELECT a FROM r [ROWS 20] WHERE NOT EXISTS (SELECT 1 FROM s [ROWS 5] WHERE s.k = r.k)",
    "SELECT a FROM r WHERE k NOT IN (SELECT k FROM s WHERE b < 'c')",
    "SELECT k FROM r UNION SELECT k FROM s",
    "SELECT k FROM r WHERE a > 3 UNION ALL SELECT k FROM s",
    "SELECT k FROM r EXCEPT ALL SELECT k FROM s BEGIN (NOW - 10 ROWS)",
    "WITH t AS (SELECT k, count(*) AS n FROM r GROUP BY k) SELECT t.k, t.n, s.b FROM t LEFT JOIN s USING (k)",
    "SELECT s.b, count(*) AS n FROM r LEFT JOIN s USING (k) GROUP BY s.b",
    "SELECT a FROM r WHERE a > (SELECT avg(k) FROM s)",
    "SELECT r.a, v.n FROM r JOIN (VALUES (1, 'x'), (2, 'y')) v(k, n) USING (k)",
    "SELECT count(*) AS n FROM (SELECT DISTINCT k FROM r) t",
    "SELECT r.k FROM r JOIN s USING (k) ANTI JOIN s z ON z.k = r.k AND z.b > s.b ORDER BY r.a, r.k LIMIT 5",
)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with serving() as service, Client(service.address) as connected:
        connected.create_stream("CREATE STREAM r (k BIGINT, a BIGINT)")
        connected.create_stream("CREATE STREAM s (k BIGINT, b TEXT)")
        yield connected


@pytest.fixture(scope="module")
def queries(client: Client) -> list[Query]:
    for step in range(3):
        push(client, step)
    return [client.register(sql) for sql in FORMS]


def push(client: Client, step: int) -> None:
    """Push some rows to both streams. Each step has rows of its own."""
    rows = range(1 + step % 6)
    client.push("r", {"k": [(7 * step + 3 * row) % 10 for row in rows], "a": [(5 * step + row) % 10 for row in rows]})
    keys = [None if (step + row) % 6 == 0 else (4 * step + 5 * row) % 9 for row in range(step % 4)]
    if keys:
        client.push("s", {"k": keys, "b": ["abcd"[(step + row) % 4] for row in range(len(keys))]})


def test_copies_are_the_answers(client: Client, queries: list[Query]) -> None:
    copies = [client.copy(query) for query in queries]
    for step in range(3, 6):
        push(client, step)
        client.sync(copies)
        for query, copy in zip(queries, copies, strict=True):
            assert copy.rows() == query.invoke().rows(), (query.sql, step)
    assert all(copy.complete for copy in copies)


def test_many_answers_are_those_of_each(client: Client, queries: list[Query]) -> None:
    each = [query.invoke().rows() for query in queries]
    assert [answer.rows() for answer in client.invoke_many(queries)] == each
    for query, rows in zip(queries, each, strict=True):
        table = client.invoke_table([query, query])
        assert [tuple(row.values()) for row in table] == [(at, *row) for at in range(2) for row in rows]


def test_pages_are_made_of_the_tuples_of_the_first(client: Client, queries: list[Query]) -> None:
    """Also if new partners come meanwhile, or tuples that would take rows away."""
    requests = [InvokeRowsRequest(query_id=query.id, page_size=5) for query in queries]
    wanted = [len(query.invoke().rows()) for query in queries]
    pages = [client.connection.queries.InvokeRows(request) for request in requests]
    counts = [len(page.rows) for page in pages]
    for at, request in enumerate(requests):
        while pages[at].next_page_token:
            push(client, at + 5)
            request.page_token = pages[at].next_page_token
            pages[at] = client.connection.queries.InvokeRows(request)
            counts[at] += len(pages[at].rows)
    assert counts == wanted


def test_queries_of_a_template_are_one_table(client: Client, queries: list[Query]) -> None:
    sql = "SELECT r.a, s.b FROM r LEFT JOIN s ON r.k = s.k AND s.b > $1 WHERE r.a > $2"
    many = client.register_many(sql, [("a", 2), ("b", 3), ("c", 1)] * 3)
    each = [answer.rows() for answer in client.invoke_many(many)]
    table = [tuple(row.values()) for row in client.invoke_table(many)]
    assert table == [(at, *row) for at, rows in enumerate(each) for row in rows]
    client.unregister_many(many)


def test_a_watch_shows_the_rows_that_leave(client: Client, queries: list[Query]) -> None:
    """A new partner takes a row away: the watch tells it like any change."""
    query = client.register("SELECT a FROM r WHERE k = 77 AND NOT EXISTS (SELECT 1 FROM s WHERE s.k = r.k)")
    client.push("r", {"k": [77], "a": [5]})
    copy = client.copy(query)
    copy.sync()
    assert copy.rows() == [(5,)]
    with client.watch([copy]) as changes:
        client.push("s", {"k": [77], "b": ["a"]})
        for _ in changes:
            if not copy.rows():
                break
    assert copy.rows() == query.invoke().rows() == []
    client.unregister(query.id)


def test_calls_for_selections_refuse_them(client: Client, queries: list[Query]) -> None:
    with pytest.raises(InvalidRequest, match="is not a selection"), client.follow("r", queries=[queries[0]]) as pages:
        next(iter(pages))
    with pytest.raises(InvalidRequest, match="keep_pairs is for joins of two streams"):
        client.register(LEFT, keep_pairs=True)
    with pytest.raises(InvalidRequest, match="is a join"):
        client.results("r", queries=[queries[0]])


def test_sides_are_hidden_and_leave_with_their_query(client: Client, queries: list[Query]) -> None:
    before = len(client.queries(include_sides=True)) - len(client.queries())
    selects = " UNION ALL ".join("SELECT r.a FROM r SEMI JOIN s USING (k)" for _ in range(8))
    query = client.register(selects)
    assert len(query.sources) == 16 and len({source.alias for source in query.sources}) == 16
    assert len(query.invoke().completeness.sources) == 16
    assert len(client.queries(include_sides=True)) - len(client.queries()) == before + 15
    shown = query.invoke(windows={query.sources[2].alias: "BEGIN (NOW - 1 ROWS)"}).rows()
    assert len(shown) < len(query.invoke().rows())
    assert query in client.queries("s")
    client.unregister(query.id)
    assert len(client.queries(include_sides=True)) - len(client.queries()) == before


def test_sources_have_roles(client: Client, queries: list[Query]) -> None:
    roles = [tuple(source.role for source in query.sources) for query in queries]
    assert roles[:5] == [
        ("rows", "optional"),
        ("optional", "optional"),
        ("rows", "partner"),
        ("rows", "absence"),
        ("rows", "absence"),
    ]
    assert (roles[5], roles[7], roles[10]) == (("rows", "rows"), ("rows", "absence"), ("rows", "scalar"))
