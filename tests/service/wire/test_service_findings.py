"""Findings of attacks that have no better place: tests/README.md lists findings and their tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from psoup_client import Client
from psoup_proto.v1 import attach_pb2 as attach
from psoup_proto.v1 import cover_pb2 as cover
from psoup_proto.v1 import matching_pb2 as matching
from psoup_proto.v1 import queries_pb2 as queries
from psoup_service.process.settings import Settings
from psoup_service.wire.limits import Limits
from psoup_storage import DurableStore
from psoup_testing.http2.half_messages import half_sent
from psoup_testing.services.threaded_service import serving

DIRECTORIES = ("..", ".", "", "nothing", "a/b", "/etc", ".hidden", "a\0b", "x" * 5_000)


@pytest.mark.seeded("F18: refusals tell paths")
@pytest.mark.seeded("an error names the path of a directory")
def test_refusals_tell_nothing_of_where_the_data_lie(tmp_path: Path) -> None:
    """F18: an error had the path of the data directory, whose owner and layout are of no concern to a client."""
    with (
        serving(store=DurableStore(tmp_path / "secret-place", reserve_bytes=0)) as there,
        Client(there.address) as client,
    ):
        client.create_stream("CREATE STREAM s (x BIGINT, at TIMESTAMP) TIMESTAMP BY at RETENTION 1 DAY ARCHIVE 10 DAYS")
        query = client.register("SELECT x FROM s").id
        stubs, said = client.connection, []
        for name in DIRECTORIES:
            said.append(refusal(stubs.attach.Attach, attach.AttachRequest(stream="s", job="j", directory=name)))
            asked = cover.CoverRequest(stream="s", directory=name, query_id=query)
            said.append(refusal(stubs.cover.Cover, asked))
    assert all(said)
    assert not [text for text in said if "secret-place" in text or str(tmp_path) in text]


def refusal(method: Callable[..., Any], request: Any) -> str:
    with pytest.raises(grpc.RpcError) as caught:
        method(request, timeout=60)
    return str(caught.value.details())


class Short(Settings):
    """Calls last a fifth of a second, whatever their clients say."""

    def limits(self) -> Limits:
        return replace(super().limits(), longest_deadline_s=0.2)


@pytest.mark.seeded("F28: deadlines of days")
@pytest.mark.seeded("a deadline is as long as the client says")
def test_a_deadline_of_days_is_cut_to_the_longest() -> None:
    """F28: a call that waits for what never happens held its place for as long as its client liked."""
    days = (("grpc-timeout", "864000S"),)
    with (
        serving(Short(port=0, receive_s=3_600)) as there,
        half_sent(there.address, "ServerService/GetServerInfo", calls=1, size=1_000, names=days) as half,
    ):
        assert half.wait_ended(1, 60)


def test_labels_are_counted_before_anything_is_made_of_them() -> None:
    """Names of columns were compared each with each on the event loop, and any number of labels was looked up: a call
    of a megabyte held all others for minutes.
    """
    names, labels = ["a"] * 33, {f"{number}": "x" for number in range(9)}
    tuples = {"stream": "s", "end_id": 1}
    with serving() as there, Client(there.address) as client:
        client.create_stream("CREATE STREAM s (x BIGINT)")
        client.push("s", [{"x": 1}])
        stubs = client.connection
        for call, request in (
            (stubs.matching.MatchesBetween, matching.MatchesBetweenRequest(**tuples, label_columns=names)),
            (stubs.matching.MatchesBetween, matching.MatchesBetweenRequest(**tuples, labels=labels)),
            (stubs.matching.Results, matching.ResultsRequest(stream="s", labels=labels)),
            (stubs.queries.Matches, queries.MatchesRequest(stream="s", labels=labels)),
            (stubs.queries.ListQueries, queries.ListQueriesRequest(labels=labels)),
            (stubs.queries.TopQueries, queries.TopQueriesRequest(labels=labels)),
            (stubs.queries.UnregisterMany, queries.UnregisterManyRequest(labels=labels)),
            (stubs.queries.AlterQueries, queries.AlterQueriesRequest(labels=labels, active=True)),
            (stubs.queries.Register, queries.RegisterRequest(statement="SELECT x FROM s", labels=labels)),
        ):
            assert refusal(call, request) in (
                "label_columns has 33 names; the limit is 32",
                "9 labels are too many: a query has 8 at most",
            )


def test_a_key_is_looked_at_whatever_request_id_comes_with_it() -> None:
    """A long statement with a key that is held, and a request ID that is known, was a defect: the fuzz found it."""
    terms = " OR ".join(f"x = {number}" for number in range(1_000))
    with serving() as there, Client(there.address) as client:
        client.create_stream("CREATE STREAM s (x BIGINT)")
        register = client.connection.queries.Register
        keyed = queries.RegisterRequest(statement=f"SELECT x FROM s WHERE {terms}", key="k", request_id="r")
        register(queries.RegisterRequest(statement="SELECT x FROM s", request_id="r"))
        first = register(keyed, timeout=60).query.query_id
        assert register(keyed, timeout=60).query.query_id == first
