"""Rows out by HTTP: answers in the form that the client accepts, with their completeness."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import threading
from typing import Any

import pyarrow as pa
import pytest

from psoup_client import Client
from psoup_testing.browser.page_requests import Page, Response
from psoup_testing.services.threaded_service import Serving

ARROW = "application/vnd.apache.arrow.stream"
SELECT = "SELECT at, name, price, x, ok FROM answered"


@pytest.fixture(scope="module")
def asking(served: Serving) -> Page:
    with Client(served.address) as soup:
        soup.create_stream("CREATE STREAM answered (at TIMESTAMP, name TEXT, price DECIMAL(9,2), x DOUBLE, ok BOOLEAN)")
        row = {"at": "2024-05-01T12:00:00Z", "name": 'a "b", c', "price": "1.50", "x": float("nan"), "ok": True}
        soup.push("answered", [row, {"name": "d"}])
        soup.register("SELECT name FROM answered WHERE ok", key="a/b é")
        soup.create_stream("CREATE STREAM many (n BIGINT)")
        soup.push("many", pa.table({"n": range(100_000)}))
        soup.ask("SELECT count(*) FROM many")
    return Page(served.service)


def ask(page: Page, body: str, **headers: str) -> Response:
    sent = {"x-psoup": "1", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return page.send("POST", "/api/ask", body.encode(), {name: value for name, value in sent.items() if value})


@pytest.mark.parametrize("path", ["/api/ask", "/api/queries/a%2Fb%20%C3%A9/rows"])
def test_an_answer_that_does_not_begin_within_the_deadline_is_refused(
    asking: Page, served: Serving, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    gateway = served.service.gateway
    assert gateway is not None
    answering, begun = gateway._calls.answering, threading.Event()
    monkeypatch.setattr(answering, "limits", dataclasses.replace(answering.limits, default_deadline_s=0.01))
    host = served.service._backend.host
    evaluate = host.evaluate

    async def late(*given: Any, **more: Any) -> Any:
        begun.set()
        await asyncio.Event().wait()  # until the call is cancelled
        return await evaluate(*given, **more)

    monkeypatch.setattr(host, "evaluate", late)
    while not begun.is_set():  # a busy machine may take longer than the deadline to begin
        body = b"SELECT name FROM answered" if path == "/api/ask" else b""
        response = asking.send("POST", path, body, {"x-psoup": "1"})
        assert (response.status, response.json["reason"]) == (504, "DEADLINE_EXCEEDED")


def test_a_select_answers_in_json(asking: Page) -> None:
    response = ask(asking, SELECT)
    assert response.headers["content-type"] == "application/json" and response.headers["cache-control"] == "no-store"
    answer = response.json
    first = {"at": "2024-05-01T12:00:00Z", "name": 'a "b", c', "price": "1.50", "x": "NaN", "ok": True}
    assert answer["rows"] == [first, {"at": None, "name": "d", "price": None, "x": None, "ok": None}]
    assert answer["rowCount"] == 2
    assert answer["columns"][2] == {"name": "price", "type": "DECIMAL(9,2)"}
    assert answer["completeness"] == json.loads(response.headers["psoup-completeness"])
    assert answer["completeness"]["final"] is False and int(answer["completeness"]["sequence"]) > 0


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("*/*", "application/json"),
        ("text/html, application/xhtml+xml, */*;q=0.1", "application/json"),
        ("application/*;q=0.5, text/csv", "text/csv; charset=utf-8"),
        ("application/json;q=0, */*", "application/x-ndjson"),
        ("application/json;q=nan, text/csv;q=0.1", "text/csv; charset=utf-8"),
        ("application/json;q=inf, text/csv;q=1.000", "text/csv; charset=utf-8"),
        ("application/json;q=1e-1, text/csv;q=0.05", "text/csv; charset=utf-8"),
        ("application/ndjson", "application/x-ndjson"),
        (ARROW.upper(), ARROW),
        ("", "application/json"),
    ],
)
def test_the_accepted_form_is_sent(asking: Page, accept: str, kind: str) -> None:
    assert ask(asking, SELECT, accept=accept).headers["content-type"] == kind


def test_each_form_has_the_same_rows(asking: Page) -> None:
    rows = ask(asking, SELECT).json["rows"]
    lines = ask(asking, SELECT, accept="application/x-ndjson").body.decode()
    assert lines.endswith("\n") and [json.loads(line) for line in lines.splitlines()] == rows
    assert ask(asking, SELECT, accept="text/csv").body.decode() == (
        '"at","name","price","x","ok"\n"2024-05-01T12:00:00Z","a ""b"", c",1.50,nan,true\n,"d",,,\n'
    )
    table = pa.ipc.open_stream(ask(asking, SELECT, accept=ARROW).body).read_all()
    assert table.column("name").to_pylist() == [row["name"] for row in rows]


def test_a_question_may_be_json_with_parameters(asking: Page) -> None:
    json_type = {"content_type": "application/json"}
    body = {"sql": "SELECT n FROM many WHERE n < ? ORDER BY n", "parameters": [2], "minSequence": "1"}
    assert ask(asking, json.dumps(body), **json_type).json["rows"] == [{"n": 0}, {"n": 1}]
    for wrong, words in (
        ({"sql": "SELECT 1", "statement": "SELECT 1"}, "statement is there twice"),
        ({"sequel": "SELECT 1"}, "no field 'sequel'; the fields are sql, asOf, window, "),
    ):
        response = ask(asking, json.dumps(wrong), **json_type)
        assert response.status == 400 and words in response.json["message"]


def test_a_registered_query_is_invoked_by_its_key(asking: Page) -> None:
    path = "/api/queries/a%2Fb%20%C3%A9/rows"
    answer = asking.send("POST", path, None, {"x-psoup": "1", "content-length": "0"}).json
    assert answer["rows"] == [{"name": 'a "b", c'}]
    headers = {"x-psoup": "1", "content-type": "application/json"}
    past = asking.send("POST", path, b'{"asOf":"1970-01-01T00:00:00Z"}', headers).json
    assert past["rows"] == []
    refused = asking.send("POST", path, b'{"key":"other"}', headers)
    assert refused.status == 400 and "the path names the query" in refused.json["message"]
    unknown = asking.send("POST", "/api/queries/none/rows", b"", headers)
    assert unknown.status == 404 and unknown.json["reason"] == "UNKNOWN_KEY"


def test_a_large_answer_comes_in_pieces(asking: Page) -> None:
    response = ask(asking, "SELECT n FROM many", accept="application/x-ndjson")
    assert response.headers["transfer-encoding"] == "chunked"
    numbers = [json.loads(line)["n"] for line in response.body.splitlines()]
    assert numbers == list(range(100_000))
    assert ask(asking, "SELECT n FROM many").json["rowCount"] == 100_000


def test_errors_have_place_and_hint(asking: Page) -> None:
    answer = ask(asking, "SELECT nam FROM answered")
    assert answer.status == 400
    assert (answer.json["line"], answer.json["column"]) == (1, 8) and "did you mean 'name'" in answer.json["hint"]


@pytest.mark.seeded("a page of another site may ask")
def test_requests_that_are_refused(asking: Page) -> None:
    cases: list[tuple[dict[str, str], int, str]] = [
        ({"x_psoup": ""}, 403, "X-Psoup: 1, or Authorization: Bearer"),
        ({"x_psoup": "", "authorization": "Basic YTpi"}, 403, "Authorization: Bearer"),
        ({"accept": "image/png"}, 406, ARROW),
        (
            {"content_type": "text/csv"},
            415,
            "Content-Type 'text/csv' is not a form of this body; send application/json",
        ),
        ({"content_type": "text/csv"}, 415, "text/plain with a SELECT"),
        ({"content_type": "text/plain; charset=utf-16"}, 415, "UTF-8"),
        ({"origin": "http://evil.example"}, 403, "comes from a page"),
    ]
    for headers, status, words in cases:
        response = ask(asking, SELECT, **headers)
        assert response.status == status and words in response.json["message"], headers
    assert asking.send("GET", "/api/ask", None, {"x-psoup": "1"}).status == 405


def test_an_access_token_stands_for_the_header(asking: Page) -> None:
    token: dict[str, Any] = {"x_psoup": "", "authorization": "Bearer none"}
    assert ask(asking, SELECT, **token).status == 200, "the service needs no credential"


def test_long_questions_and_long_rows_are_left_to_a_thread(
    asking: Page, served: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = served.service.gateway
    assert gateway is not None
    decoders, sizes = gateway._calls.decoders, list[int]()
    original = decoders.run

    async def run(sender: Any, size: int, work: Any, **facts: Any) -> Any:
        sizes.append(size)
        return await original(sender, size, work, **facts)

    monkeypatch.setattr(decoders, "run", run)
    cases = [
        ("SELECT name FROM answered", "application/json", []),
        ("SELECT n > 5 AS more FROM many WHERE n < 1000", "application/json", [64 * 1_000]),
        ("SELECT name FROM answered", "text/csv", None),
        (f"SELECT n FROM many WHERE n IN ({','.join('1' * 300)})", "application/json", [-1]),
    ]
    for body, accept, expected in cases:
        sizes.clear()
        answer = ask(asking, body, accept=accept)
        assert answer.status == 200
        if expected is None:
            assert len(sizes) == 3, "the schema, the rows and the end"
        else:
            assert sizes == [len(body) if size < 0 else size for size in expected], body


def test_the_completeness_of_streams_with_other_letters_is_json(asking: Page, served: Serving) -> None:
    with Client(served.address) as soup:
        for name in ("café", "naïve😀"):
            soup.create_stream(f'CREATE STREAM "{name}" (n BIGINT)')
        soup.push("café", [{"n": 1}])
    select = 'SELECT a.n FROM "café" a WHERE NOT EXISTS (SELECT 1 FROM "naïve😀" b WHERE b.n = a.n)'
    answer = ask(asking, select)
    assert answer.status == 200, answer.body
    completeness = json.loads(answer.headers["psoup-completeness"])
    assert completeness == answer.json["completeness"]
    assert {source["stream"] for source in completeness["sources"]} == {"café", "naïve😀"}
