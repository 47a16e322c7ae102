"""Pages on other hosts: only the origins of `web_origins` may call, with an access token."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from psoup_client import Client
from psoup_service.gate.page_origins import page_origins
from psoup_service.process.settings import Settings
from psoup_testing.browser.page_requests import CALL, Page, Response, path_of
from psoup_testing.services.threaded_service import serving

INFO = "ServerService/GetServerInfo"
APP = "https://app.example.org"
CROSS = {"origin": APP, "sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}
ASKED = {**CROSS, "access-control-request-method": "POST", "access-control-request-headers": "authorization,x-psoup"}


@pytest.fixture(scope="module")
def listed() -> Iterator[Page]:
    """A service without tokens, whose setting lists one page."""
    with serving(Settings(port=0, web_port=0, web_origins=(APP, "http://localhost:5173"))) as service:
        with Client(service.address) as client:
            client.create_stream("CREATE STREAM s (n BIGINT)")
        yield Page(service.service)


@pytest.fixture(scope="module")
def any_page() -> Iterator[tuple[Page, str]]:
    """A service with tokens that takes calls of every page, and the token of a reader."""
    with serving(Settings(port=0, web_port=0, web_origins=("*",))) as service:
        with Client(service.address) as client:
            token = client.issue_token("ann", ["owner", "operator"], first=True)
        yield Page(service.service), token.secret


@pytest.fixture(scope="module")
def no_token() -> Iterator[Page]:
    """A service without tokens that takes calls of every page."""
    with serving(Settings(port=0, web_port=0, web_origins=("*",))) as service:
        yield Page(service.service)


def cors(response: Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name.startswith("access-control")}


def test_a_listed_page_is_told_that_it_may_call(listed: Page) -> None:
    answer = listed.send("OPTIONS", path_of(INFO), headers=ASKED)
    assert (answer.status, answer.body, answer.headers["vary"]) == (204, b"", "Origin")
    assert answer.headers["access-control-allow-origin"] == APP
    assert answer.headers["access-control-allow-methods"] == "GET, POST"
    assert int(answer.headers["access-control-max-age"]) == 7200
    allowed = answer.headers["access-control-allow-headers"].lower().split(", ")
    assert {"authorization", "content-type", "idempotency-key", "x-psoup", "content-encoding"} <= set(allowed)
    assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize("origin", [APP, "http://localhost:5173"])
def test_a_listed_page_may_read_replies_errors_and_events(listed: Page, origin: str) -> None:
    cross = {**CROSS, "origin": origin}
    responses = {
        "a call": listed.post(INFO, "{}", cross),
        "an error": listed.post("QueryService/GetQuery", '{"key": "none"}', cross),
        "no such call": listed.post("QueryService/Nothing", "{}", cross),
        "another content type": listed.post(INFO, "{}", {**cross, "content-type": "text/plain"}),
        "rows in": listed.send("POST", "/api/streams/s/rows", '{"n": 1}', {**cross, "idempotency-key": origin}),
        "rows out": listed.send("POST", "/api/ask", "SELECT n FROM s", {**cross, "x-psoup": "1"}),
        "the description": listed.send("GET", "/api/openapi.json", headers=cross),
    }
    assert [response.status for response in responses.values()] == [200, 404, 404, 415, 200, 200, 200]
    for name, response in responses.items():
        assert response.headers["access-control-allow-origin"] == origin, name
        assert response.headers["access-control-expose-headers"] == "Psoup-Completeness, Retry-After", name
        assert response.headers["vary"] == "Origin", name
    connection = listed.opened()
    try:
        connection.request("GET", "/follow?stream=s&after=start", headers=cross)
        events = connection.getresponse()
        assert (events.status, events.getheader("access-control-allow-origin")) == (200, origin)
    finally:
        connection.close()


@pytest.mark.seeded("a page of web_origins may be another one than it names")
@pytest.mark.parametrize(
    "origin",
    ["null", "http://app.example.org", f"{APP}:8443", f"{APP}.evil.example", "https://evil.example", "http://localhost",
     "https://x.app.example.org", f"{APP}/", APP.upper(), f"{APP}, {APP}", "*", ""],
)  # fmt: skip
def test_other_pages_are_refused_as_before_and_are_told_nothing(listed: Page, origin: str) -> None:
    responses = [listed.post(INFO, "{}", {"origin": f" {origin}" if origin == "" else origin}),
                 listed.send("OPTIONS", path_of(INFO), headers={**ASKED, "origin": origin})]  # fmt: skip
    if origin:
        assert [(response.status, response.json["reason"]) for response in responses] == [(403, "ORIGIN")] * 2
        assert "web_origins" in responses[0].json["message"]
    for response in responses:
        assert cors(response) == {}
        assert response.headers["vary"] == "Origin", "a cache must not give it to another page"


def test_a_listed_page_passes_every_other_check(listed: Page) -> None:
    refused = {
        "no header": (listed.post(INFO, "{}", {**CROSS, "x-psoup": ""}), "HEADER"),
        "a foreign host": (listed.post(INFO, "{}", {**CROSS, "host": "evil.example"}), "HOST"),
        "a foreign host, asked": (
            listed.send("OPTIONS", path_of(INFO), headers={**ASKED, "host": "evil.example"}),
            "HOST",
        ),
        "GET": (listed.send("GET", path_of(INFO), headers={**CALL, **CROSS}), "METHOD"),
        "OPTIONS without a question": (listed.send("OPTIONS", path_of(INFO), headers={**CALL, **CROSS}), "METHOD"),
        "two origins": (_twice(listed), "ORIGIN"),
    }
    for name, (response, reason) in refused.items():
        assert response.json["reason"] == reason, name


def _twice(page: Page) -> Response:
    connection = page.opened()
    try:
        connection.putrequest("POST", path_of(INFO))
        for name, value in [*CALL.items(), ("origin", APP), ("origin", APP), ("content-length", "2")]:
            connection.putheader(name, value)
        connection.endheaders(b"{}")
        reply = connection.getresponse()
        return Response(reply.status, dict(reply.getheaders()), reply.read())
    finally:
        connection.close()


@pytest.mark.parametrize("path", ["/", "/healthz", "/sw.js", "/nothing"])
def test_files_and_health_are_not_open_to_other_pages(listed: Page, path: str) -> None:
    response = listed.send("GET", path, headers=CROSS)
    assert response.status == 403 and cors(response) == {}


@pytest.mark.seeded("with the origin * a call of another page needs no access token")
def test_any_page_may_call_with_an_access_token(any_page: tuple[Page, str]) -> None:
    page, token = any_page
    assert page.send("OPTIONS", path_of(INFO), headers={**ASKED, "origin": "https://any.example"}).status == 204
    taken = page.post(INFO, "{}", {**CROSS, "authorization": f"Bearer {token}"})
    assert (taken.status, taken.headers["access-control-allow-origin"]) == (200, APP)
    for headers in ({}, {"authorization": "Basic eDp5"}, {"cookie": f"token={token}"}):
        refused = page.post(INFO, "{}", {**CROSS, **headers})
        assert (refused.status, refused.json["reason"]) == (401, "NO_CREDENTIAL")
        assert refused.headers["access-control-allow-origin"] == APP, "the page may read why"
    null = page.post(INFO, "{}", {"origin": "null", "authorization": f"Bearer {token}"})
    assert (null.status, cors(null)) == (403, {})


@pytest.mark.seeded("with the origin * any page may call a service without tokens")
@pytest.mark.parametrize("token", ["", "Bearer x", "bearer ", "Bearer psoup_0000000000"])
def test_any_page_needs_a_token_of_the_service_also_where_it_has_none(no_token: Page, token: str) -> None:
    """Else every visited page could read what a service on the same machine has."""
    assert no_token.post(INFO, "{}", {"origin": f"http://{no_token.place}"}).status == 200, "the page itself needs none"
    headers = {**CROSS, **({"authorization": token} if token else {})}
    responses = [
        no_token.post(INFO, "{}", headers),
        no_token.send("GET", "/follow?stream=s", headers=headers),
        no_token.send("POST", "/api/ask", "SELECT 1", {**headers, "x-psoup": "1"}),
        no_token.send("POST", "/api/streams/s/rows", '{"n": 1}', {**headers, "idempotency-key": "a"}),
    ]
    assert [(response.status, response.json["reason"]) for response in responses] == [(401, "NO_CREDENTIAL")] * 4
    assert "the operator names the origin" in responses[0].json["message"]


def test_without_the_setting_nothing_speaks_of_other_pages(page: Page) -> None:
    response = page.post(INFO, "{}", {"origin": f"http://{page.place}"})
    assert "vary" not in response.headers and cors(response) == {}


def test_origins_are_read_as_browsers_write_them() -> None:
    addresses = ("http://[0:0:0:0:0:0:0:1]:5173", "http://[2001:DB8:0::0001]", "http://192.168.1.7:3000")
    assert page_origins(addresses) == {"http://[::1]:5173", "http://[2001:db8::1]", "http://192.168.1.7:3000"}
    given = ("HTTPS://App.Example.org:443/", "http://localhost:5173", "http://[::1]:80", "http://127.0.0.1:08080")
    assert page_origins(given) == {APP, "http://localhost:5173", "http://[::1]", "http://127.0.0.1:8080"}
    assert page_origins(["*"]) == {"*"}
    assert Settings(web_origins=f"{APP}, http://a:81").web_origins == (APP, "http://a:81")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (["app.example.org"], "it has no scheme; write SCHEME://HOST"),
        (["https://*.example.org"], "a pattern is not possible"),
        (["https://app.example.org/app"], "an origin has no path"),
        (["https://ann@app.example.org"], "it has a user name"),
        (["https://app.example.org:0"], "0 is not a valid port"),
        (["https://app.example.org:99999"], "99999 is not a valid port"),
        (["ftp://app.example.org"], "write SCHEME://HOST"),
        (["null"], "'null' is the origin of any file"),
        (["https://ä.example"], "with xn--"),
        (["http://127.1"], "127.1 is not an IPv4 address"),
        (["http://0x7f000001:80"], "is not an IPv4 address"),
        (["http://[1:2]"], r"\[1:2\] is not an IPv6 address"),
        (["http://[:::]"], "is not an IPv6 address"),
        (["https://app.example.org."], "write SCHEME://HOST"),
        (["https://a b"], "is not a valid origin of a page"),
        (["*", APP], "'\\*' stands for all origins"),
        ([""], "it has no scheme"),
    ],
)
def test_a_wrong_origin_is_refused_at_the_start(wrong: list[str], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Settings(web_origins=tuple(wrong))
