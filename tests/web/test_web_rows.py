"""Rows and parameters in JSON: pushed, registered and read by a program without Arrow, over HTTP and over gRPC."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from psoup_client import Client
from psoup_proto.v1 import ingest_pb2 as ingest
from psoup_proto.v1 import ingest_pb2_grpc, queries_pb2_grpc
from psoup_proto.v1 import queries_pb2 as queries
from psoup_service.web.bodies import MOST_BYTES, MOST_VALUES
from psoup_testing.browser.page_requests import Page
from psoup_testing.services.threaded_service import Serving

CREATE = """CREATE STREAM {} (at TIMESTAMP NOT NULL, price DECIMAL(9,2), n BIGINT, d DOUBLE, ok BOOLEAN, day DATE,
 note TEXT) TIMESTAMP BY at"""
AT = '"at": "2024-05-01T12:00:00Z"'


@pytest.fixture(scope="module")
def ads(served: Serving, page: Page) -> str:
    """A stream of its own for these tests."""
    page.call("StatementService/Execute", {"statement": CREATE.format("ads")})
    return "ads"


@pytest.fixture(scope="module")
def channel(served: Serving) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(served.address) as channel:
        yield channel


def pushed(page: Page, rows: str, **fields: Any) -> tuple[int, Any]:
    """The status and the reply of a push of rows, given as the text of their JSON."""
    more = "".join(f", {json.dumps(name)}: {json.dumps(value)}" for name, value in fields.items())
    response = page.post("IngestService/PushRows", f'{{"stream": "ads", "rows": {rows}{more}}}'.encode())
    return response.status, response.json


def asked(page: Page, statement: str, **fields: Any) -> list[dict[str, Any]]:
    reply = page.call("StatementService/Ask", {"statement": statement, "json": True, **fields})
    assert int(reply.get("rows", 0)) == len(reply["jsonRows"])
    rows: list[dict[str, Any]] = reply["jsonRows"]
    return rows


def test_rows_go_in_and_come_out_as_they_are(page: Page, served: Serving) -> None:
    """The answer is the one that Python's client reads, and its rows go in again."""
    page.call("StatementService/Execute", {"statement": CREATE.format("whole")})
    first = (
        '{"at": "2024-05-01T12:00:00.5+02:00", "price": 1234567.80, "n": 9007199254740993, "d": 0.1, "ok": true,'
        ' "day": "2024-05-01", "note": "\\u0000\\ud83d\\ude00"}'
    )
    second = '{"AT": "2024-05-01T12:00:01Z", "Price": "-0.5", "n": "-9223372036854775808", "d": "NaN", "ok": null}'
    body = f'{{"stream": "WHOLE", "rows": [{first}, {second}]}}'
    reply = page.post("IngestService/PushRows", body).json
    assert reply["accepted"] == "2"
    made = page.call("QueryService/Register", {"statement": "SELECT * FROM whole BEGIN (START)", "key": "whole"})
    answer = page.call("QueryService/InvokeRows", {"key": "whole", "json": True, "minSequence": reply["sequence"]})
    assert [column["name"] for column in answer["columns"]] == [c["name"] for c in made["query"]["columns"]]
    assert "rows" not in answer, "the rows are there once"
    assert answer["jsonRows"] == [
        {"at": "2024-05-01T10:00:00.500000Z", "price": "1234567.80", "n": "9007199254740993", "d": 0.1, "ok": True,
         "day": "2024-05-01", "note": "\0\U0001f600"},
        {"at": "2024-05-01T12:00:01Z", "price": "-0.50", "n": "-9223372036854775808", "d": "NaN", "ok": None,
         "day": None, "note": None},
    ]  # fmt: skip
    with Client(served.address) as client:
        table = client.invoke(key="whole").to_arrow()
        assert str(table["price"].to_pylist()) == "[Decimal('1234567.80'), Decimal('-0.50')]"
        assert table["n"].to_pylist() == [9007199254740993, -(2**63)]
    page.call("StatementService/Execute", {"statement": CREATE.format("twice")})
    once_more = page.call("IngestService/PushRows", {"stream": "twice", "rows": answer["jsonRows"]})
    assert asked(page, "SELECT * FROM twice BEGIN (START)", minSequence=once_more["sequence"]) == answer["jsonRows"]


@pytest.mark.parametrize(
    ("rows", "row", "column", "why"),
    [
        ("5", None, None, "rows is a number; write an array of objects"),
        ('{"n": 1}', None, None, "rows is an object; write an array of objects"),
        ('"[]"', None, None, "rows is a string; write an array of objects"),
        ("null", None, None, "rows is empty; write an array of objects"),
        ("[[1]]", "0", None, "row 0: it is an array; write an object with the values by column"),
        (f"[{{{AT}}}, null]", "1", None, "row 1: it is `null`; write an object"),
        (f'[{{{AT}}}, {{"prcie": 1}}]', "1", "prcie", 'row 1: the stream has no column "prcie"; its'),
        (f'[{{{AT}, "AT": null}}]', "0", "at", "row 0: column 'at' comes twice"),
        (f'[{{{AT}}}, {{{AT}, "price": 1.005}}]', "1", "price", "row 1: 1.005 in column 'price' is not"),
        ('[{"price": 1e-400}]', "0", "price", "row 0: 1E-400 in column 'price' is not a valid DECIMAL(9,2)"),
        ('[{"price": 1e999999999}]', "0", "price", "is not a valid DECIMAL(9,2)"),
        ('[{"n": 1.5}]', "0", "n", "row 0: 1.5 in column 'n' is not a valid BIGINT; write a whole number"),
        ('[{"n": true}]', "0", "n", "row 0: true in column 'n'"),
        ('[{"n": 9223372036854775808}]', "0", "n", "row 0: 9223372036854775808 in column 'n'"),
        ('[{"d": 1e999}]', "0", "d", "row 0: 1E+999 in column 'd' is not a valid DOUBLE"),
        ('[{"d": 9007199254740993}]', "0", "d", "a whole number above 2^53 is rarely exact"),
        ('[{"note": 5}]', "0", "note", "row 0: 5 in column 'note' is not a valid TEXT; write a text"),
        ('[{"note": {"a": 1}}]', "0", "note", "row 0: an object in column 'note'"),
        ('[{"ok": 1}]', "0", "ok", "row 0: 1 in column 'ok' is not a valid BOOLEAN; write true or false"),
        ('[{"day": "2024-02-30"}]', "0", "day", 'row 0: "2024-02-30" in column \'day\' is not a valid DATE'),
        ('[{"at": 1714564800}]', "0", "at", "row 0: 1714564800 in column 'at' is not a valid TIMESTAMP; write"),
        (f'[{{{AT}}}, {{"at": null}}]', "1", "at", "row 1: 'at' is NULL, but the stream says NOT NULL"),
        ('[{"price": 1}]', None, "at", "column 'at' is missing and is NOT NULL"),
        ('[{"price": ' + "9" * 5_000 + "}]", None, None, "it has a number of more digits than any column holds"),
    ],
)  # fmt: skip
def test_a_row_that_does_not_fit_is_named(page: Page, ads: str, rows: str, row: str, column: str, why: str) -> None:
    status, reply = pushed(page, rows)
    assert (status, reply["code"]) == (400, "INVALID_ARGUMENT"), reply
    assert why in reply["message"]
    assert (reply["metadata"].get("row"), reply["metadata"].get("column")) == (row, column), reply
    assert pushed(page, "[]")[0] == 200, "nothing of it was taken, and the next push is"


@pytest.mark.parametrize(
    ("rows", "status", "why"),
    [
        ('[{"n": 1, "n": 2}]', 400, "the name 'n' is there twice in one object"),
        ('[{"d": NaN}]', 400, 'NaN is not a number of JSON; for a DOUBLE write it as a text: "NaN"'),
        ('[{"d": -Infinity}]', 400, "-Infinity is not a number of JSON"),
        (r'[{"note": "\ud800"}]', 400, "rows has half of a character"),
        (r'[{"\udfff": 1}]', 400, "rows has half of a character"),
        ("[" * 5_000 + "]" * 5_000, 400, "it has more than 16 objects and lists within one another"),
        ("[" + "{}," * MOST_VALUES + "{}]", 400, f"it has more than {MOST_VALUES:,} values"),
        ("[{]", 400, "it is not JSON, at line 1"),
    ],
)  # fmt: skip
def test_hostile_rows_are_refused_before_they_are_read(page: Page, ads: str, rows: str, status: int, why: str) -> None:
    values, reply = pushed(page, rows)
    assert values == status and why in reply["message"], reply


def test_a_push_of_rows_over_grpc_has_the_same_bounds(channel: grpc.Channel, ads: str) -> None:
    stub = ingest_pb2_grpc.IngestServiceStub(channel)

    def refused(rows: bytes) -> tuple[str, str]:
        with pytest.raises(grpc.RpcError) as problem:
            stub.PushRows(ingest.PushRowsRequest(stream="ads", rows=rows))
        return problem.value.code().name, problem.value.details() or ""

    for rows, code, why in (
        (b"", "INVALID_ARGUMENT", "rows is empty"),
        (b"\xff", "INVALID_ARGUMENT", "rows cannot be read: byte ff is not utf-8"),
        (b"[" * 100_000, "INVALID_ARGUMENT", "it is nested too deeply"),
        (b"[" + b"{}," * MOST_VALUES + b"{}]", "RESOURCE_EXHAUSTED", "50,000 is the most in JSON, push in parts"),
        (b'[{"note": "' + b"x" * MOST_BYTES + b'"}]', "RESOURCE_EXHAUSTED", "1,048,576 is the most in JSON"),
        (b'[{"d": NaN}]', "INVALID_ARGUMENT", "NaN is not a number of JSON"),
        (b'[{"d": 1, "d": 2}]', "INVALID_ARGUMENT", "the name 'd' comes twice in one object"),
        (rb'[{"note": "\ud800"}]', "INVALID_ARGUMENT", "row 0: \"\\ud800\" in column 'note' is not a valid TEXT"),
    ):
        values, reply = refused(rows if rows[:2] != b"[[" else b"[" * 40_000)
        assert values == code and why in reply, (rows[:40], reply)


def test_a_push_of_rows_takes_all_rows_or_none_unless_told_to_count(page: Page, ads: str) -> None:
    rows = f'[{{{AT}, "n": 1, "note": "whole"}}, {{"at": "2999-01-01T00:00:00Z", "n": 2, "note": "whole"}}]'
    status, refused = pushed(page, rows)
    assert (status, refused["reason"]) == (400, "ROWS_REFUSED")
    assert (refused["metadata"]["ahead"], refused["metadata"]["ahead_rows"]) == ("1", "1")
    assert refused["message"].endswith('ask that the other rows are taken ("refused": "REFUSED_COUNT")')
    _, reply = pushed(page, rows, refused="REFUSED_COUNT")
    assert (reply["accepted"], reply["ahead"]) == ("1", "1")
    taken = asked(page, "SELECT n FROM ads WHERE note = 'whole' BEGIN (START)", minSequence=reply["sequence"])
    assert taken == [{"n": 1}], "the push that was refused as a whole took nothing"


def test_a_numbered_push_of_rows_is_taken_once(page: Page, ads: str) -> None:
    rows, numbered = f'[{{{AT}, "n": 1.0}}]', {"producer": "till", "epoch": 1, "number": 0}
    first = pushed(page, rows, **numbered)[1]
    again = pushed(page, f' [ {{ {AT}, "n": 1.0 }} ] ', **numbered)[1]
    assert (first["accepted"], again["sequence"], again["duplicate"]) == ("1", first["sequence"], True)
    status, reply = pushed(page, f'[{{{AT}, "n": 2}}]', **numbered)
    assert (status, reply["reason"]) == (409, "PAYLOAD_CONFLICT")


@pytest.mark.parametrize(
    ("statement", "parameters", "clause"),
    [
        ("SELECT n FROM ads WHERE price > ?", "[1.10]", "price >= 1.11"),
        ("SELECT n FROM ads WHERE price > $least AND note = $buyer", '{"buyer": "ann", "least": "7"}', "price >= 7.01"),
        ("SELECT n FROM ads WHERE n = ?", "[9007199254740993]", "n = 9007199254740993"),
        ("SELECT n FROM ads WHERE note = 'no parameter'", "[]", "no parameter"),
        ("SELECT n FROM ads WHERE note = $many", json.dumps({"many": "[{" * 9_000}), "[{[{"),
        ("SELECT n FROM ads WHERE ok = ? AND at > ?", '[true, "2024-05-01"]', "2024-05-01"),
    ],
)  # fmt: skip
def test_a_query_is_registered_with_parameters_in_json(
    page: Page, ads: str, statement: str, parameters: str, clause: str
) -> None:
    body = f'{{"statement": {json.dumps(statement)}, "parameters": {parameters}}}'
    reply = page.post("QueryService/Register", body)
    assert reply.status == 200, reply.json
    assert clause in reply.json["query"]["clause"]
    asked_once = page.post("StatementService/Ask", body[:-1] + ', "json": true}')
    assert asked_once.status == 200 and isinstance(asked_once.json["jsonRows"], list), asked_once.json


@pytest.mark.parametrize(
    ("parameters", "reason", "why"),
    [
        ("[[1]]", "JSON", "parameter 1 is an array; write a number, a text, true, false or null"),
        ("[{}]", "JSON", "parameter 1 is an object"),
        ("[1, 2]", "PARAMETER_COUNT", "2 parameters are given, but the statement takes 1"),
        ('{"least": 1}', "PARAMETER_COUNT", "the parameters are written ?, so they have no names"),
        ('["x"]', "PARAMETER_TYPE", "parameter 1 of query 1 is 'x', a text, but DECIMAL(9,2) is expected"),
        ("[1e400]", "JSON", "parameters cannot be read: 1E+400 is too large for a DOUBLE"),
        ("[" + "9" * 60 + "]", "JSON", "with more than 38 digits around the point"),
        ("[1e-300]", "", ""),
        (r'["\ud800"]', "NOT_PROTOBUF", "parameters has half of a character"),
        ("5", "JSON", "parameters is a number; write an array in order, or an object by name"),
        ('"it is"', "NOT_PROTOBUF", "parameters is a text; write an array in order, or an object by name"),
        ('"YWJj"', "NOT_ARROW", "parameters is not an Arrow IPC stream"),
        ('[1], "parametersJson": "WzFd"', "NOT_PROTOBUF", "parameters_json is there twice, as JSON and in base64"),
    ],
)  # fmt: skip
def test_parameters_that_do_not_fit_are_named(page: Page, ads: str, parameters: str, reason: str, why: str) -> None:
    body = f'{{"statement": "SELECT n FROM ads WHERE price > ?", "parameters": {parameters}}}'
    for call in ("QueryService/Register", "StatementService/Ask"):
        reply = page.post(call, body)
        if reason:
            assert (reply.status, reply.json["reason"]) == (400, reason), reply.json
            assert why.removeprefix("parameter 1 of query 1 ") in reply.json["message"]
        else:
            assert reply.status == 200, reply.json


def test_bytes_that_are_no_parameters_are_named_by_their_field(channel: grpc.Channel, ads: str) -> None:
    """The message said `arrow_ipc`, which is a field of other requests."""
    stub = queries_pb2_grpc.QueryServiceStub(channel)
    with pytest.raises(grpc.RpcError) as problem:
        stub.Register(queries.RegisterRequest(statement="SELECT n FROM ads WHERE n > ?", parameters=b"[1]"))
    reply = problem.value.details() or ""
    assert reply.startswith("parameters is not an Arrow IPC stream")
    assert "a column for each parameter" in reply and "parameters_json" in reply
    both = queries.RegisterRequest(statement="SELECT n FROM ads", parameters=b"x", parameters_json=b"[1]")
    with pytest.raises(grpc.RpcError, match="give parameters or parameters_json, not both"):
        stub.Register(both)


def test_many_queries_are_registered_with_rows_in_json(channel: grpc.Channel, ads: str) -> None:
    stub, statement = queries_pb2_grpc.QueryServiceStub(channel), "SELECT n FROM ads WHERE price > $p AND note = $t"

    def registered(rows: str) -> list[str]:
        request = queries.RegisterManyRequest(statements=[statement], parameters_json=rows.encode())
        ids = stub.RegisterMany(request).query_ids
        return [stub.GetQuery(queries.GetQueryRequest(query_id=each)).query.statement for each in ids]

    rows = '[{"p": 1, "t": "a"}, {"t": "b", "p": 2.50}, {"p": 12345678901234567.5, "t": null}]'
    assert registered(rows) == [
        statement.replace("$p", p).replace("$t", t)
        for p, t in (("1.0", "'a'"), ("2.5", "'b'"), ("12345678901234567.5", "NULL"))
    ]
    for rows, why in (
        ("[]", "parameters is an array; write an array with a row for each query"),
        ('{"p": 1}', "parameters is an object; write an array with a row for each query"),
        ('[{"p": 1, "t": "a"}, {"p": 1}]', "row 1 of parameters has other places or names than row 0"),
        ('[{"p": 1, "t": "a"}, [1]]', "row 1 of parameters has other places or names than row 0"),
        ('[{"p": 1, "t": "a"}, {"p": "x", "t": "a"}]', "parameter p has values of several kinds"),
        ("[5]", "row 0 of parameters is a number; write an array in order, or an object by name"),
    ):
        with pytest.raises(grpc.RpcError) as problem:
            registered(rows)
        assert why in (problem.value.details() or ""), problem.value.details()


def test_pages_of_rows_in_json_are_the_whole_answer(page: Page, ads: str) -> None:
    rows = json.dumps([{"at": f"2024-06-01T12:{n // 60:02}:{n % 60:02}Z", "n": n, "note": "page"} for n in range(250)])
    sequence = pushed(page, rows)[1]["sequence"]
    page.call("QueryService/Register", {"statement": "SELECT n FROM ads WHERE note = 'page' BEGIN (START)", "key": "p"})
    values, token = list[int](), ""
    while token or not values:
        asking = {"key": "p", "json": True, "pageSize": 100, "pageToken": token, "minSequence": sequence}
        answer = page.call("QueryService/InvokeRows", asking)
        values += [row["n"] for row in answer["jsonRows"]]
        token = answer.get("nextPageToken", "")
    assert values == list(range(250))
    none = page.call("StatementService/Ask", {"statement": "SELECT n FROM ads WHERE n < -5", "json": True})
    assert none["jsonRows"] == []
    large = {"statement": "SELECT n FROM ads WHERE note = 'page' BEGIN (START)", "json": True, "maxBytes": 500}
    reply = page.call("StatementService/Ask", large)
    assert reply["tooLarge"] and "jsonRows" not in reply


def test_a_page_of_rows_in_json_is_no_larger_than_a_reply(page: Page, ads: str) -> None:
    """Characters that JSON writes in six bytes: the page ends earlier, and the next one goes on."""
    note = "z" + "\1" * 150_000
    for n in range(5):
        row = {"at": f"2024-07-01T12:00:{n:02}Z", "n": n, "note": note}
        sequence = pushed(page, json.dumps([row]))[1]["sequence"]
    statement = "SELECT n, note FROM ads WHERE note LIKE 'z%' BEGIN (START)"
    page.call("QueryService/Register", {"statement": statement, "key": "long"})
    asking = {"key": "long", "json": True, "minSequence": sequence}
    first = page.call("QueryService/InvokeRows", asking)
    second = page.call("QueryService/InvokeRows", {**asking, "pageToken": first["nextPageToken"]})
    assert [row["n"] for row in (*first["jsonRows"], *second["jsonRows"])] == [0, 1, 2, 3, 4]
    assert 1 < len(first["jsonRows"]) < 4 and first["jsonRows"][0]["note"] == note
    whole = page.call("StatementService/Ask", {"statement": statement, "json": True, "maxBytes": 2_000_000})
    assert whole["tooLarge"]
