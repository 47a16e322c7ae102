"""Every reply is bounded in bytes and in time, whatever is asked for; the client gets the rest by asking again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import grpc
import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.message import Message

from psoup.errors import ResourceExhausted
from psoup.local import LocalPSoup
from psoup.work.read_budget import ReadBudget
from psoup_client import Client
from psoup_proto.v1 import queries_pb2 as queries
from psoup_proto.v1 import queries_pb2_grpc, streams_pb2_grpc
from psoup_proto.v1 import streams_pb2 as streams
from psoup_service.wire.answers import Pieces
from psoup_service.wire.limits import Limits
from psoup_service.wire.written import OpenMessage, writer
from psoup_testing.services.threaded_service import Serving, serving

ANSWER = 100_000
"""Bytes of a reply here; in service it is 3 MiB, as gRPC's clients take 4 by default."""
MOST = ANSWER + 100_000
"""The last item of a list may be longer than what is left."""
QUERIES = 300


@pytest.fixture(scope="module")
def service() -> Iterator[Serving]:
    with serving() as running:
        backend = running.service._backend
        object.__setattr__(backend, "limits", replace(backend.limits, answer_bytes=ANSWER))
        with Client(running.address) as client:
            client.create_stream("CREATE STREAM m (a BIGINT)")
            client.register_many("SELECT a FROM m WHERE a > ?", [(n - 2 * QUERIES,) for n in range(QUERIES)])
            done = client.push("m", pa.table({"a": np.arange(1_000)}))
            client.wait_for(done.sequence)
        yield running


@pytest.fixture
def client(service: Serving) -> Iterator[Client]:
    with Client(service.address) as client:
        yield client


@pytest.mark.seeded("F9: a small request has a reply of any size")
def test_a_reply_to_matches_many_is_of_the_first_tuples_and_the_client_asks_for_the_others(
    service: Serving, client: Client
) -> None:
    with grpc.insecure_channel(service.address) as channel:  # with the limits of any client
        stub = queries_pb2_grpc.QueryServiceStub(channel)
        request = queries.MatchesManyRequest(stream="m", tuple_ids=range(100), limit=10_000)
        reply = stub.MatchesMany(request)
    assert reply.ByteSize() < MOST
    assert 1 <= len(reply.tuples) < 100, "30,000 IDs are 660 kB"
    assert [one.tuple_id for one in reply.tuples] == list(range(len(reply.tuples)))
    assert {len(one.query_ids) for one in reply.tuples} == {QUERIES}
    everything = client.matches_many("m", range(100), limit=10_000)
    assert [len(one) for one in everything] == [QUERIES] * 100
    few = client.matches_many("m", [5, 900, 5], limit=3)
    assert few == [everything[5][:3], everything[5][:3], everything[5][:3]]


def test_ids_of_a_reply_are_written_in_parts_between_which_the_budget_is_asked(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, check = list[ReadBudget](), ReadBudget.check

    def counted(budget: ReadBudget) -> None:
        asked.append(budget)
        check(budget)

    monkeypatch.setattr(ReadBudget, "check", counted)
    found = client.matches_many("m", [7], limit=10_000)
    whole = len(asked)
    monkeypatch.setattr("psoup_service.servicers.costs._TOGETHER", 10)
    assert client.matches_many("m", [7], limit=10_000) == found
    assert len(asked) - 2 * whole == QUERIES // 10 - 1


def test_a_reply_in_parts_is_the_message_that_it_would_be_as_a_whole() -> None:
    entries = [queries.TupleMatches(tuple_id=n, query_ids=[f"q{n}", "é" * n], truncated=n % 2 == 0) for n in range(9)]
    parts = OpenMessage(queries.MatchesManyResponse)
    parts.open.sequence = 7
    sizes = list[int]()
    for entry in entries:
        parts.open.tuples.append(entry)
        if entry.tuple_id % 3:
            sizes.append(parts.cut())
    whole = queries.MatchesManyResponse(tuples=entries, sequence=7)
    raw = writer(queries.MatchesManyResponse.SerializeToString)(parts.written())
    assert queries.MatchesManyResponse.FromString(raw) == whole
    assert len(sizes) == 6
    assert sum(sizes) == len(raw)
    assert writer(queries.MatchesManyResponse.SerializeToString)(whole) == whole.SerializeToString()
    assert OpenMessage(queries.MatchesManyResponse).written().raw == b""


def test_answers_of_many_queries_are_written_in_parts(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.create_stream("CREATE STREAM parted (a BIGINT)")
    client.wait_for(client.push("parted", pa.table({"a": np.arange(40)})).sequence)
    ids = [query.id for query in client.register_many("SELECT a FROM parted WHERE a < ?", [(n,) for n in range(40)])]
    cut, parts = OpenMessage.cut, list[int]()

    def counted(open_parts: OpenMessage[Message]) -> int:
        parts.append(cut(open_parts))
        return parts[-1]

    monkeypatch.setattr(OpenMessage, "cut", counted)
    for bound, least in ((1_000, 10), (1 << 30, 1)):
        parts.clear()
        monkeypatch.setattr("psoup_service.servicers.many.PART_BYTES", bound)
        assert [answer.to_arrow().num_rows for answer in client.invoke_many(ids)] == list(range(40))
        assert least <= len(parts) < 10 * least


def test_pages_of_long_statements_have_fewer_of_them(service: Serving, client: Client) -> None:
    client.create_stream("CREATE STREAM long (t TEXT)")
    sent = [f"SELECT t FROM long WHERE t = '{n:02d}{'y' * 4_000}'" for n in range(20)]
    registered = [client.register(sql).id for sql in sent]
    with grpc.insecure_channel(service.address) as channel:
        stub = queries_pb2_grpc.QueryServiceStub(channel)
        seen, token, pages = list[str](), "", 0
        while True:
            reply = stub.ListQueries(queries.ListQueriesRequest(page_size=1_000, stream="long", page_token=token))
            assert reply.ByteSize() < MOST
            seen += [query.query_id for query in reply.queries]
            token, pages = reply.next_page_token, pages + 1
            if not token:
                break
        assert (seen, pages) == (registered, 2)
        top = stub.TopQueries(queries.TopQueriesRequest(stream="long", limit=1_000))
        assert top.ByteSize() < MOST
        assert 5 < len(top.costs) < 20
        for query_id in seen[:2]:
            assert stub.Explain(queries.ExplainRequest(query_id=query_id)).ByteSize() < MOST
    assert [query.id for query in client.queries("long")] == registered


def test_pages_of_streams_with_many_columns_have_fewer_of_them(service: Serving, client: Client) -> None:
    for number in range(8):
        columns = ", ".join(f"c{'x' * 40}{column} BOOLEAN" for column in range(300))
        client.create_stream(f"CREATE STREAM wide{number} ({columns})")
    with grpc.insecure_channel(service.address) as channel:
        stub = streams_pb2_grpc.StreamServiceStub(channel)
        first = stub.ListStreams(streams.ListStreamsRequest(page_size=1_000))
    assert first.ByteSize() < MOST
    assert first.next_page_token
    names = [stream.name for stream in client.streams()]
    assert {f"wide{number}" for number in range(8)} <= set(names)


def test_pages_of_rows_are_bounded_by_what_they_are_on_the_wire(service: Serving, client: Client) -> None:
    client.create_stream(f"CREATE STREAM flags ({', '.join(f'c{n} BOOLEAN' for n in range(200))})")
    query = client.register("SELECT * FROM flags")
    done = client.push("flags", pa.table({f"c{n}": [True] * 200 for n in range(200)}))
    client.wait_for(done.sequence)
    with grpc.insecure_channel(service.address) as channel:
        stub = queries_pb2_grpc.QueryServiceStub(channel)
        rows, token = 0, ""
        while True:
            request = queries.InvokeRowsRequest(query_id=query.id, page_size=10_000, page_token=token)
            reply = stub.InvokeRows(request)
            assert reply.ByteSize() < MOST
            rows += len(reply.rows)
            token = reply.next_page_token
            if not token:
                break
    assert rows == 200


def test_a_row_that_fits_no_message_is_refused_by_name() -> None:
    soup = LocalPSoup()
    soup.execute("CREATE STREAM s (t TEXT)")
    query = soup.register("SELECT t, t AS u, t AS v FROM s")
    soup.push("s", pa.table({"t": ["short", "x" * 40_000]}))
    pieces = Pieces(soup.invoke(query).lean(), queries.InvokeStreamResponse, 1_000, 100_000)
    assert pieces.next() is not None
    first = pieces.next()
    assert first is not None
    assert first[0] == 1
    with pytest.raises(ResourceExhausted, match=r"a row of this answer takes 120,\d{3} bytes") as caught:
        pieces.next()
    assert caught.value.reason == "ROW_TOO_LARGE"


@pytest.mark.seeded("F9: a small request has a reply of any size")
def test_messages_that_leave_have_a_limit() -> None:
    options = dict(Limits().channel_options())
    assert options["grpc.max_send_message_length"] == 64 * 1024 * 1024
