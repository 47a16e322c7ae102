"""Matches of a stream as an event stream, read by an HTTP client and by a browser's EventSource."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pyarrow as pa
import pytest

from psoup_client import Client
from psoup_service.process.settings import Settings
from psoup_testing.browser.browser import SKIPPED, Opened, executable
from psoup_testing.browser.page_requests import Page
from psoup_testing.services.threaded_service import Serving, serving


class Event(NamedTuple):
    """An event: its kind, its data, and the position after it. A comment has the kind ""."""

    kind: str
    data: Any
    position: str


@contextmanager
def followed(page: Page, address: str, **headers: str) -> Iterator[Iterator[Event]]:
    """The events of an address, read by a plain HTTP client."""
    connection = page.opened()
    try:
        connection.request("GET", address, None, {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        assert (response.status, response.headers["content-type"]) == (200, "text/event-stream"), response.read()
        yield events(response)
    finally:
        connection.close()


def events(response: http.client.HTTPResponse) -> Iterator[Event]:
    """The events of a response, as the standard for EventSource reads them."""
    fields: dict[str, str] = {}
    while line := response.readline():
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name:
            fields[name] = value
            continue
        data = json.loads(fields["data"]) if "data" in fields else None
        yield Event(fields.get("event", "message") if "data" in fields else "", data, fields.get("id", ""))
        fields = {}
    assert not fields, "a cut event"


@pytest.fixture
def client(served: Serving) -> Iterator[Client]:
    with Client(served.address) as soup:
        yield soup


def made(client: Client, name: str) -> str:
    """A stream with two queries."""
    client.create_stream(
        f"CREATE STREAM {name} (n BIGINT, price DECIMAL(9,2), day DATE, at TIMESTAMP, ok BOOLEAN, x DOUBLE)"
    )
    for user in ("ann", "bob"):
        client.register(f"SELECT n FROM {name} WHERE n > 0", key=f"{name}-{user}", labels={"user": user})
    return name


def test_events_have_positions_and_go_on_from_them(page: Page, client: Client) -> None:
    stream = made(client, "followed")
    client.register(f"SELECT count(*) AS n FROM {stream}", labels={"user": "ann"})
    with followed(page, f"/follow?stream={stream}&label=user%3Dann") as replies:
        assert next(replies)[:2] == ("", None), "the position comes at once"
        client.push(stream, {"n": [1, -1, 2], "price": ["1.50", None, None], "day": ["2026-07-01", None, None]})
        event = next(event for event in replies if event.data)
        assert event.kind == "message" and (event.data["lag"], event.data["left_out"]) == (0, 1)
        first, second = event.data["matches"]
        assert (first["tuple"]["n"], first["tuple"]["price"], first["tuple"]["day"]) == (1, "1.50", "2026-07-01")
        assert first["tuple"]["_time"].endswith("Z") and second["tuple"]["x"] is None
        (query,) = first["queries"]
        assert (query["key"], query["labels"]) == (f"{stream}-ann", {"user": "ann"})
        assert query["query_id"] == client.query(key=f"{stream}-ann").id
    client.push(stream, {"n": [3]})
    with followed(
        page, f"/follow?stream={stream}&key={stream}-bob&after=start", last_event_id=event.position
    ) as replies:
        again = next(event for event in replies if event.data)
        assert [match["tuple"]["n"] for match in again.data["matches"]] == [3], "Last-Event-ID counts before after"
    with followed(page, f"/follow?stream={stream}&after=start&old=true&label=user=bob") as replies:
        everything = next(event for event in replies if event.data)
        assert [match["tuple"]["n"] for match in everything.data["matches"]] == [1, 2, 3]


def test_values_have_the_form_of_answers(page: Page, client: Client) -> None:
    """No value changes in a browser, whose numbers are doubles; NaN and NULL differ."""
    client.create_stream("CREATE STREAM wide (n BIGINT, x DOUBLE, at TIMESTAMP)")
    query = client.register("SELECT n, x, at FROM wide WHERE n > 0 OR n < 0", key="wide")
    rows = [(2**53 + 1, float("nan"), "2026-07-01 12:00"), (-(2**63), float("inf"), "9999-12-31 23:59:59.999999")]
    client.push("wide", [dict(zip(("n", "x", "at"), row, strict=True)) for row in rows])
    with followed(page, "/follow?stream=wide&key=wide&after=start") as replies:
        matches = next(event for event in replies if event.data).data["matches"]
    tuples = [{name: match["tuple"][name] for name in ("n", "x", "at")} for match in matches]
    answer = page.call("QueryService/InvokeRows", {"queryId": query.id, "json": True})
    assert tuples == answer["jsonRows"]
    assert tuples[0] == {"n": "9007199254740993", "x": "NaN", "at": "2026-07-01T12:00:00Z"}


def test_a_time_after_the_year_9999_and_a_large_number_are_told(page: Page, client: Client) -> None:
    stream = made(client, "distant")
    client.push(stream, {"n": [2**60], "at": pa.array([10**18], pa.timestamp("us", "UTC"))})
    with followed(page, f"/follow?stream={stream}&after=start&label=user%3Dann") as replies:
        (match,) = next(event for event in replies if event.data).data["matches"]
    assert (match["tuple"]["n"], match["tuple"]["at"]) == (str(2**60), "33658-09-27T01:46:40.000000Z")
    ((row,),) = (list(batch) for batch in [next(client.follow(stream, "start", labels={"user": "ann"}))])
    assert row.tuple["at"].startswith("33658-09-27")


def test_a_lost_position_is_an_event(page: Page, client: Client) -> None:
    client.create_stream("CREATE STREAM brief (n BIGINT) RETENTION 5 ROWS")
    client.register("SELECT n FROM brief")
    position = client.follow("brief").position
    client.push("brief", {"n": range(20)})
    with followed(page, "/follow?stream=brief", last_event_id=position) as replies:
        event = next(event for event in replies if event.data)
        assert (event.kind, event.data["reason"], event.data["missed"]) == ("reset", "NOT_KEPT", 15)
        after = next(event for event in replies if event.data)
        assert [match["tuple"]["n"] for match in after.data["matches"]] == [15, 16, 17, 18, 19]


@pytest.mark.parametrize(
    ("address", "headers", "status", "words"),
    [
        ("", {}, 400, "names no stream"),
        ("?stream=s&token=abc", {}, 400, "send the access token in the header authorization"),
        ("?stream=s&access_token=abc", {}, 400, "replace this token"),
        ("?stream=s&stream=t", {}, 400, "stream is there twice"),
        ("?stream=s&since=1", {}, 400, "no parameter 'since'; there are stream, after"),
        ("?stream=s&label=user", {}, 400, "give label=NAME=VALUE"),
        ("?stream=s&label=a=1&label=a=2", {}, 400, "two values"),
        ("?stream=s&old=yes", {}, 400, "it is true or false"),
        ("?stream=%ff", {}, 400, "not a list of NAME=VALUE"),
        ("?stream=nowhere", {}, 404, "there is no stream or table 'nowhere'"),
        ("?stream=s&after=p1-none", {}, 400, "not a position"),
        ("?stream=s", {"last-event-id": "x" * 500}, 400, "not a position"),
        ("?stream=s", {"origin": "https://evil.example"}, 403, "a page of"),
        ("?stream=s", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 403, "another site"),
        ("?stream=s", {"host": "evil.example"}, 421, "is not a name of this service"),
    ],
)
def test_bad_addresses_are_refused(page: Page, address: str, headers: dict[str, str], status: int, words: str) -> None:
    response = page.send("GET", f"/follow{address}", headers=headers)
    assert response.status == status and words in response.json["message"], response.body


def test_only_get_begins_an_event_stream(page: Page) -> None:
    response = page.send("POST", "/follow?stream=s", "{}", {"content-type": "application/json"})
    assert (response.status, response.headers["allow"]) == (405, "GET")


def test_the_gate_holds_and_a_drain_ends_event_streams(tmp_path: Path) -> None:
    with serving(Settings(port=0, web_port=0, data_dir=str(tmp_path))) as service:
        with Client(service.address) as client:
            client.create_stream("CREATE STREAM s (n BIGINT)")
            owner = client.issue_token("ann", ["owner", "operator"], first=True).secret
        page, bearer = Page(service.service), f"Bearer {owner}"
        assert page.send("GET", "/follow?stream=s").status == 401
        assert page.send("GET", f"/follow?stream=s&authorization={quote(bearer)}").status in (400, 401)
        with followed(page, "/follow?stream=s", authorization=bearer) as replies:
            next(replies)
            service.stop()
            assert [(kind, data["reason"]) for kind, data, _ in replies if data] == [("error", "DRAINING")]


@pytest.mark.long
@pytest.mark.skipif(executable() is None, reason=SKIPPED)
def test_a_browser_follows(tab: Opened) -> None:
    page = tab.page
    page.evaluate(
        "() => { window.replies = []; window.source = new EventSource('/follow?stream=ticks&after=start&old=true');"
        " source.onmessage = event => replies.push([JSON.parse(event.data).matches[0].tuple.n, event.lastEventId]); }"
    )
    page.wait_for_function("() => replies.length > 0")
    number, position = page.evaluate("() => { source.close(); return replies[0]; }")
    assert number == 0 and position.isascii() and " " not in position
