"""Costs of queries, the queries that many tuples matched, and the bill of memory, through the SDK and the command."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable

import grpc
import pytest

from psoup_cli.commands.query.top import facts, row
from psoup_cli.main import main
from psoup_client import Client, InvalidRequest, NotFound, OutOfRange
from psoup_proto.v1 import queries_pb2
from psoup_testing.services.threaded_service import Serving

MakeStream = Callable[[str], str]


@pytest.fixture
def filled(client: Client, make_stream: MakeStream) -> tuple[str, list[str]]:
    name = make_stream("(a BIGINT, b BIGINT)")
    wheres = ("a < 5", "a > 1 AND b = -1", "a >= 0")
    queries = [client.register(f"SELECT a FROM {name} WHERE {where}").id for where in wheres]
    done = client.push(name, [{"a": k % 10, "b": k} for k in range(200)])
    client.wait_for(done.sequence)
    return name, queries


def test_the_dearest_queries_with_their_counts(client: Client, filled: tuple[str, list[str]]) -> None:
    name, queries = filled
    found = {cost.query.query_id: cost for cost in client.top_queries("matched", stream=name)}
    assert list(found) == [queries[2], queries[0], queries[1]]
    assert [found[query].matched for query in queries] == [100, 0, 200]
    assert all(cost.tuples == 200 and cost.matched <= cost.candidates for cost in found.values())
    assert found[queries[0]].selectivity == found[queries[0]].matched / found[queries[0]].candidates
    assert 0 < sum(cost.cpu_share for cost in found.values()) <= 1.0001
    assert [cost.query.query_id for cost in client.top_queries("matched", stream=name, limit=1)] == [queries[2]]
    paged = queries_pb2.TopQueriesRequest(order=queries_pb2.COST_ORDER_MATCHED, stream=name, limit=2)
    first = client.connection.queries.TopQueries(paged)
    paged.page_token = first.next_page_token
    rest = client.connection.queries.TopQueries(paged)
    assert [cost.query.query_id for cost in (*first.costs, *rest.costs)] == list(found) and not rest.next_page_token
    for wrong in (b"x", base64.urlsafe_b64encode(b'["costs",{"of":"","less":NaN,"clause":1,"query":1}]')):
        paged.page_token = wrong.decode().rstrip("=")
        with pytest.raises(grpc.RpcError, match="page_token"):
            client.connection.queries.TopQueries(paged)
    assert len(client.top_queries(stream=name, limit=None)) == 3 and client.top_queries(limit=0) == []
    cost = found[queries[0]]
    assert row(cost)[0] == queries[0]
    assert facts(cost)["matched"] == 100
    with pytest.raises(ValueError, match="'age'; take one of cpu"):
        client.top_queries("age")
    with pytest.raises(NotFound):
        client.top_queries(stream="nowhere")


def test_the_queries_of_many_tuples(client: Client, filled: tuple[str, list[str]]) -> None:
    name, queries = filled
    asked = [199, 0, 7, 0]
    assert client.matches_many(name, asked) == [client.matches(name, tuple_id) for tuple_id in asked]
    assert client.matches_many(name, [3]) == [[queries[0], queries[2]]]
    assert client.matches_many(name, [3], limit=1) == [[queries[0]]]
    assert client.matches_many(name, []) == []
    with pytest.raises(OutOfRange, match="tuple 200 is not in stream"):
        client.matches_many(name, [1, 200])
    with pytest.raises(InvalidRequest, match="page_size is -1"):
        client.matches_many(name, [1], limit=-1)


def test_the_bill_says_what_each_structure_takes(client: Client, filled: tuple[str, list[str]]) -> None:
    found = client.memory()
    items = {item.structure: item for item in found.items}
    assert {"tuples", "open results", "predicate index", "query catalog"} <= items.keys()
    assert items["tuples"].count >= 200
    assert items["tuples"].each >= 24
    assert found.used == sum(item.bytes for item in found.items) > 0
    assert found.budget == 4 * 1024**3
    assert all(0 <= item.reclaimable <= item.bytes for item in found.items)


def test_explain_shows_what_a_query_costs(client: Client, filled: tuple[str, list[str]]) -> None:
    explanation = client.query(filled[1][0]).explain()
    assert "looked at" in str(explanation)
    assert json.dumps(explanation.details["cost"])


@pytest.fixture
def psoup(
    running: Serving, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """The command; returns its exit code and what it wrote to standard output."""
    monkeypatch.setenv("PSOUP_ADDRESS", running.address)
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["psoup", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        return code if isinstance(code, int) else 0, capsys.readouterr().out

    return run


def test_the_commands(psoup: Callable[..., tuple[int, str]], filled: tuple[str, list[str]]) -> None:
    name, queries = filled
    found = [json.loads(line) for line in psoup("top", "--stream", name, "--by", "matched", "--json")[1].splitlines()]
    assert [row["query_id"] for row in found] == [queries[2], queries[0], queries[1]]
    assert [row["matched"] for row in found] == [200, 100, 0]
    shown = psoup("top", "--stream", name, "-n", "2")[1]
    assert shown.startswith("query_id,key,labels,stream,sql,tuples,candidates,matched,")
    assert shown.count("SELECT") == 2
    assert psoup("top", "--by", "age")[0] == 2
    both = psoup("matches", name, "7", "3")[1].splitlines()
    assert both == [f"7\t{queries[2]}", f"3\t{queries[0]}", f"3\t{queries[2]}"]
    bill = [json.loads(line) for line in psoup("status", "--memory", "--json")[1].splitlines()]
    assert bill[-1]["bytes"] == sum(row["bytes"] for row in bill[:-1])
    shown = psoup("status", "--memory")[1]
    assert "/ tuple" in shown
    assert "budget" in shown
