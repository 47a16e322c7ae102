"""The tools of assistants, called by the official SDK's client, which checks each result by its schema."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from mcp.client.client import Client as McpClient

from psoup_client import Client
from psoup_service.assistants.tools import BY_NAME
from psoup_testing.services.threaded_service import Serving

Call = Callable[..., Any]


def reason(refused: Any) -> str:
    """The reason of an error."""
    assert refused.is_error
    return str(refused.structured_content["error"]["reason"])


def test_all_tools_are_listed_with_schemas_and_whether_they_only_read(url: str) -> None:
    async def listed() -> list[Any]:
        async with McpClient(url) as client:
            return list((await client.list_tools()).tools)

    tools = asyncio.run(listed())
    reads = {tool.name: tool.annotations.read_only_hint for tool in tools}
    assert reads == {
        "list": True,
        "describe": True,
        "check": True,
        "ask": True,
        "register": False,
        "invoke": True,
        "changes": True,
        "why": True,
        "unregister": False,
    }
    for tool in tools:
        assert tool.input_schema["type"] == tool.output_schema["type"] == "object"
        assert tool.input_schema["additionalProperties"] is False
        assert tool.description
        assert '"null"' not in json.dumps(tool.input_schema), "forms show one type of a field"
    assert [tool.name for tool in tools if tool.annotations.destructive_hint] == ["unregister"]


def test_an_answer_says_what_it_leaves_out_and_how_complete_it_is(call: Call) -> None:
    answer = call("ask", sql="SELECT sym, n FROM trades", max_rows=1).structured_content
    assert answer["rows"] == [{"sym": "A", "n": 3}]
    assert answer["columns"] == [{"name": "sym", "type": "TEXT"}, {"name": "n", "type": "BIGINT"}]
    assert answer["more_rows"] == 1
    assert answer["completeness"]["said"].startswith("The answer reflects event ")
    nulls = call("ask", sql="SELECT n FROM trades").structured_content
    assert nulls["rows"] == [{"n": 3}, {"n": None}]


def test_a_client_of_the_handshake_reads_the_same_answers(url: str) -> None:
    async def asked() -> Any:
        async with McpClient(url, mode="legacy") as client:
            assert "list" in [tool.name for tool in (await client.list_tools()).tools]
            return await client.call_tool("ask", {"sql": "SELECT n FROM trades"})

    assert asyncio.run(asked()).structured_content["rows"] == [{"n": 3}, {"n": None}]


def test_an_error_has_the_place_in_the_statement_and_a_hint(call: Call) -> None:
    refused = call("ask", sql="SELECT sym,\n prce FROM trades")
    assert refused.is_error
    facts = refused.structured_content["error"]
    assert (facts["reason"], facts["line"], facts["column"]) == ("UNKNOWN_COLUMN", 2, 2)
    assert facts["hint"] == "did you mean 'price'?"
    assert "^" in refused.content[0].text


def test_an_error_fits_the_schema_of_the_tool(call: Call) -> None:
    """Clients in TypeScript check results that are errors, too."""
    for name in ("list", "ask", "why"):
        jsonschema.validate(call(name, wrong=1).structured_content, BY_NAME[name].output_schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({}, BY_NAME["ask"].output_schema)


def test_wrong_arguments_are_named(call: Call) -> None:
    refused = call("ask", sq="SELECT 1")
    assert refused.is_error
    assert refused.content[0].text.startswith("the argument sql is missing; there is no argument 'sq'; there are ")
    assert "only one of them" in call("invoke").content[0].text
    for text in ("noon", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"):
        assert f"as_of is {text!r}" in call("ask", sql="SELECT sym FROM trades", as_of=text).content[0].text
    assert call("ask", sql="SELECT sym FROM trades", max_rows=0).is_error
    many = call("ask", **{f"a{number}": 1 for number in range(500)})
    assert many.content[0].text == "500 arguments are given, and the tool ask has 5"


def test_a_query_lives_from_its_registration_to_its_end(call: Call) -> None:
    sql = "SELECT sym, price FROM trades WHERE price > 2"
    registered = call("register", key="dear", sql=sql, labels={"of": "tests"}).structured_content
    assert registered["existed"] is False
    assert call("register", key="dear", sql=sql, labels={"of": "tests"}).structured_content["existed"] is True
    assert (
        call("register", key="dear", sql="SELECT sym FROM trades").structured_content["error"]["reason"] == "KEY_TAKEN"
    )
    assert call("invoke", key="dear").structured_content["rows"] == [{"sym": "B", "price": 2.5}]
    listed = call("list", kind="queries").structured_content["queries"]["items"]
    assert [(query["key"], query["labels"]) for query in listed] == [("dear", {"of": "tests"})]
    described = call("describe", key="dear").structured_content["query"]
    assert [column["name"] for column in described["columns"]] == ["sym", "price"]
    reasons = call("why", key="dear", tuple_id=0).structured_content
    assert not reasons["in_answer"]
    assert reasons["conditions"][0]["condition"] == "price > 2.0e0"
    assert call("unregister", key="dear").structured_content["query_id"] == registered["query_id"]
    assert reason(call("invoke", key="dear")) == "UNKNOWN_KEY"


def test_a_query_is_registered_with_an_amount(call: Call) -> None:
    sql = "SELECT sym FROM trades WHERE price > 1"
    registered = call("register", key="rare", sql=sql, amount="none", active=False).structured_content
    assert (registered["amount"], registered["active"]) == ("none", False)
    again = call("register", key="rare", sql=sql, amount="complete").structured_content
    assert (again["existed"], again["amount"], again["active"]) == (True, "none", False)
    assert call("register", key="usual", sql=sql).structured_content["amount"] == "partial"
    described = call("describe", key="rare").structured_content["query"]
    assert (described["amount"], described["active"]) == ("none", False)
    listed = call("list", kind="queries").structured_content["queries"]["items"]
    assert {query["key"]: query["amount"] for query in listed} == {"rare": "none", "usual": "partial"}
    assert "amount" not in call("check", sql=sql).structured_content["query"]
    refused = call("register", key="other", sql=sql, amount="half").content[0].text
    assert "amount is 'half'; it must be one of none, partial, complete" in refused
    schema = BY_NAME["register"].input_schema["properties"]["amount"]
    assert schema["type"] == "string" and schema["enum"][:3] == ["none", "partial", "complete"]
    for key in ("rare", "usual"):
        call("unregister", key=key)


def test_a_statement_is_checked_without_asking_it(call: Call) -> None:
    checked = call("check", sql="SELECT count(*) FROM trades BEGIN (NOW - 1 HOUR)").structured_content
    assert checked["plan"][0] == "Project count(*)"
    assert checked["query"]["window"] == "BEGIN (NOW - 1 HOUR) END (NOW)"
    stream = call("describe", stream="trades").structured_content["stream"]
    assert stream["statement"].startswith("CREATE STREAM trades")


def test_changes_go_on_from_a_token(call: Call, running: Serving) -> None:
    with Client(running.address) as client:
        client.create_stream("CREATE STREAM ticks (k TEXT, v INT) RETENTION 3 ROWS")
        client.push("ticks", [{"k": "a", "v": 1}, {"k": "b", "v": 2}])
        client.register("SELECT v FROM ticks", key="ticks")
        client.register("SELECT k, sum(v) AS total FROM ticks GROUP BY k", key="totals")
        client.wait_for(client.last_sequence)
        first = call("changes", key="ticks").structured_content
        assert (first["reset"], first["reset_reason"], first["complete"]) == (True, "FIRST", True)
        assert [row["v"] for row in first["came"]] == [1, 2]
        totals = call("changes", key="totals").structured_content
        assert totals["came"] == [{"k": "a", "total": "1"}, {"k": "b", "total": "2"}]
        same = call("changes", key="ticks", token=first["token"]).structured_content
        assert (same["came"], same["token"]) == ([], first["token"])
        client.push("ticks", [{"k": "b", "v": 3}])
        client.wait_for(client.last_sequence)
    second = call("changes", key="ticks", token=first["token"]).structured_content
    assert [row["v"] for row in second["came"]] == [3]
    assert second["stays"] == {"_id": [[0, 2]]}
    later = call("changes", key="totals", token=totals["token"]).structured_content
    assert later["came"] == [{"k": "b", "total": "5"}]
    assert later["removed"] == [[1, 2]]
    damaged = call("changes", key="ticks", token=first["token"][:-4] + "AAAA")
    assert damaged.is_error
    assert "leave it out" in call("changes", key="ticks", token="no token!").content[0].text


def test_a_large_answer_is_cut_and_all_its_rows_are_counted(call: Call, running: Serving) -> None:
    with Client(running.address) as client:
        client.create_stream("CREATE STREAM many (v INT, t TEXT)")
        client.push("many", [{"v": v, "t": "x" * 100} for v in range(12_000)])
        client.register("SELECT v, t FROM many", key="many")
        client.wait_for(client.last_sequence)
    for reply in (call("ask", sql="SELECT v, t FROM many"), call("invoke", key="many")):
        answer = reply.structured_content
        assert [row["v"] for row in answer["rows"]] == list(range(200))
        assert answer["more_rows"] == 11_800
    short = call("invoke", key="many", max_bytes=2_000)
    assert len(short.content[0].text) <= 2_000
    assert 5 < len(short.structured_content["rows"]) < 20
    assert short.structured_content["more_rows"] == 12_000 - len(short.structured_content["rows"])
    changes = call("changes", key="many", max_rows=10).structured_content
    assert (len(changes["came"]), changes["complete"]) == (10, False)
    assert changes["more_rows"] == 11_990


def test_a_row_that_exceeds_the_reply_is_left_out(call: Call, running: Serving) -> None:
    with Client(running.address) as client:
        client.create_stream("CREATE STREAM wide (t TEXT)")
        client.push("wide", [{"t": "x" * 70_000}])
        client.register("SELECT t FROM wide", key="wide")
        client.wait_for(client.last_sequence)
    answer = call("ask", sql="SELECT t FROM wide").structured_content
    assert (answer["rows"], answer["more_rows"]) == ([], 1)
    assert "The first row alone" in answer["note"]
    assert reason(call("changes", key="wide")) == "REPLY_TOO_LARGE"


def test_lists_go_on_by_pages(call: Call) -> None:
    first = call("list", kind="streams", max_rows=1).structured_content["streams"]
    assert len(first["items"]) == 1
    second = call("list", kind="streams", max_rows=1, page=first["next_page"]).structured_content["streams"]
    assert second["items"][0]["name"] > first["items"][0]["name"]
    assert call("list", page="x").is_error


def test_a_stream_with_many_columns_and_a_long_statement_are_cut(call: Call, running: Serving) -> None:
    names = ", ".join(f"column_{number} INT" for number in range(510))
    listed = ", ".join(str(number) for number in range(200))
    with Client(running.address) as client:
        client.create_stream(f"CREATE STREAM zz_columns ({names})")
        client.register(f"SELECT sym FROM trades WHERE n IN ({listed})", key="in")
        client.wait_for(client.last_sequence)
    streams = call("list", kind="streams").structured_content["streams"]["items"]
    assert (streams[-1]["name"], len(streams[-1]["columns"]), streams[-1]["more_columns"]) == ("zz_columns", 50, 460)
    described = call("describe", stream="zz_columns").structured_content["stream"]
    assert (len(described["columns"]), described["more_columns"]) == (500, 10)
    queries = {query["key"]: query for query in call("list", kind="queries").structured_content["queries"]["items"]}
    assert len(queries["in"]["statement"]) == 501
    assert len(call("describe", key="in").structured_content["query"]["statement"]) > 501


@pytest.mark.long
def test_another_client_reads_the_same_tools(url: str) -> None:
    import fastmcp  # two seconds

    async def asked() -> Any:
        async with fastmcp.Client(url) as client:
            assert len(await client.list_tools()) == 9
            return await client.call_tool("ask", {"sql": "SELECT sym FROM trades"})

    assert asyncio.run(asked()).structured_content["rows"] == [{"sym": "A"}, {"sym": "B"}]
