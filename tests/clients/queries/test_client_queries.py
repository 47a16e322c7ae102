"""The sequence that register_many returns: as a list of queries, but for its memory."""

from __future__ import annotations

import random

import pytest

from psoup_client import Client, Queries, Query
from psoup_proto.v1 import queries_pb2
from psoup_testing.services.threaded_service import serving


@pytest.fixture
def client() -> Client:
    return Client()  # nothing is sent


def test_it_is_as_the_list_of_its_queries(client: Client) -> None:
    source = random.Random(7)
    for _ in range(200):
        spans = [
            (source.choice(("q-a-", "q-b-")), range(first := source.randrange(4), first + source.randrange(5)))
            for _ in range(source.randrange(5))
        ]
        queries = Queries(client, spans)
        ids = [f"{prefix}{number}" for prefix, numbers in spans for number in numbers]
        listed = [Query(client, query_id) for query_id in ids]
        assert [query.id for query in queries] == ids
        assert queries == listed and listed == queries and len(queries) == len(ids) and bool(queries) == bool(ids)
        assert [*reversed(queries)] == listed[::-1]
        for _ in range(8):
            low, high = source.randrange(-12, 12), source.choice((None, source.randrange(-12, 12)))
            cut = slice(low, high, source.choice((None, 1, 2, -1, -3)))
            assert queries[cut] == listed[cut], cut
        for place in range(-len(ids), len(ids)):
            assert queries[place].id == ids[place]
        for beyond in (len(ids), -len(ids) - 1):
            with pytest.raises(IndexError):
                queries[beyond]
        assert queries != [*listed, Query(client, "q-a-1")] and queries != Queries(client, [*spans, ("q-c-", range(1))])
        assert (queries == 5) is False


def test_what_follows_is_one_span_and_printed_short(client: Client) -> None:
    parts = [Queries(client, [("q-a-", range(start, start + 8_192))]) for start in range(0, 1_000 * 8_192, 8_192)]
    queries = Queries.together(client, parts)
    assert repr(queries) == "<8,192,000 queries, q-a-0 to q-a-8191999>"
    assert len(queries._spans) == 1
    assert repr(queries[:1]) == "<1 query, q-a-0>"
    assert repr(queries[:0]) == "<0 queries>"
    with pytest.raises(TypeError, match="unhashable"):
        hash(queries)


def test_a_reply_has_ids_unless_ranges_are_asked_for() -> None:
    with serving() as service, Client(service.address) as client:
        client.create_stream("CREATE STREAM s (a BIGINT)")
        request = queries_pb2.RegisterManyRequest(statements=["SELECT a FROM s", "SELECT a FROM s WHERE a = 1"])
        reply = client.connection.call(client.connection.queries.RegisterMany, request)
        queries = client.register_many([f"SELECT a FROM s WHERE a = {number}" for number in range(600)])
        assert (len(reply.query_ids), len(reply.ranges)) == (2, 0)
        assert [client.query(query_id) for query_id in reply.query_ids] + [*queries] == client.queries()
        assert queries[7].sql == "SELECT a FROM s WHERE a = 7"
