"""Requests that the gateway accepts: any page in a browser may send some."""

from __future__ import annotations

import json

import pytest

from psoup_service.web.guard import POLICY
from psoup_testing.browser.page_requests import CALL, Page, path_of

INFO = "ServerService/GetServerInfo"
HOST = "psoup.example"


def told(page: Page, headers: dict[str, str]) -> tuple[int, str]:
    response = page.post(INFO, "{}", headers)
    return response.status, response.json.get("reason", "")


@pytest.mark.seeded("the Host of a request is not looked at, or only its beginning or its end")
@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "evil.example:7434", "127.0.0.1.nip.example", "10.0.0.1", "localhost:",
     "[::2]", "localhost,evil.example", f"a.{HOST}", " "],
)  # fmt: skip
def test_a_foreign_host_is_not_heard(page: Page, host: str) -> None:
    """A name of somebody else may point to this machine: DNS rebinding."""
    assert told(page, {"host": host}) == (421, "HOST")
    assert page.send("GET", "/", headers={"host": host}).status == 421, "nor is it given a file"


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1:7434", "[::1]", "[::1]:7434", HOST, f"{HOST}:9"]
)
def test_our_hosts_are_heard(page: Page, host: str) -> None:
    assert told(page, {"host": host}) == (200, "")


def test_no_host_and_two_hosts_are_not_heard(page: Page) -> None:
    for lines in ("", "Host: localhost\r\nHost: localhost\r\n"):
        with page.raw() as opened:
            opened.sendall(f"GET /healthz HTTP/1.1\r\n{lines}\r\n".encode())
            assert opened.recv(4096).split()[1] == b"400", "h11 refuses it before the guard"
    with page.raw() as opened:
        opened.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert opened.recv(4096).split()[1] == b"421"


@pytest.mark.seeded("the content type, or the header, of a call is not looked at")
@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/json; charset=utf-16",
     "application/grpc-web", "text/json", "application/jsonx", ""],
)  # fmt: skip
def test_other_content_types_are_refused(page: Page, kind: str) -> None:
    """A form of a page elsewhere can send the first three without asking."""
    assert told(page, {"content-type": kind}) == (415, "CONTENT_TYPE")


@pytest.mark.seeded("the content type, or the header, of a call is not looked at")
def test_a_call_without_the_header_is_refused(page: Page) -> None:
    assert told(page, {"x-psoup": ""}) == (403, "HEADER")
    assert told(page, {"x-psoup": "0"}) == (403, "HEADER")


@pytest.mark.seeded("another Origin, or null, is let in")
@pytest.mark.parametrize(
    "origin",
    ["null", "http://evil.example", "http://localhost:1", "https://localhost.evil.example", "http://127.0.0.1",
     "file://", "chrome-extension://abc"],
)  # fmt: skip
def test_a_foreign_origin_is_refused(page: Page, origin: str) -> None:
    assert told(page, {"origin": origin}) == (403, "ORIGIN")


def test_our_own_origin_is_heard(page: Page) -> None:
    assert told(page, {"origin": f"http://{page.place}"}) == (200, "")
    assert told(page, {"host": HOST, "origin": f"https://{HOST}"}) == (200, ""), "behind a proxy that ends TLS"
    assert told(page, {"host": HOST, "origin": f"https://x.{HOST}"}) == (403, "ORIGIN")


@pytest.mark.seeded("only cross-site requests are refused")
@pytest.mark.seeded("a call that says it is a navigation is let in")
@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
def test_calls_from_other_sites_are_refused(page: Page, site: str) -> None:
    assert told(page, {"sec-fetch-site": site}) == (403, "SITE")
    assert told(page, {"sec-fetch-site": site, "sec-fetch-mode": "navigate"}) == (403, "SITE")
    assert page.send("GET", "/healthz", headers={"sec-fetch-site": site}).status == 403, "nor do they get files"
    arrived = {"sec-fetch-site": site, "sec-fetch-mode": "navigate"}
    assert page.send("GET", "/healthz", headers=arrived).status == 200, "a link may lead here"


def test_calls_of_the_page_itself_are_heard(page: Page) -> None:
    for site in ("same-origin", "none"):
        assert told(page, {"sec-fetch-site": site}) == (200, "")


@pytest.mark.seeded("calls are taken with any method")
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_calls_are_post_alone(page: Page, method: str) -> None:
    response = page.send(method, path_of(INFO), headers=CALL)
    assert (response.status, response.headers["allow"]) == (405, "POST")


def test_preflights_are_refused_and_nothing_speaks_of_cors(page: Page) -> None:
    """A browser asks before it sends the header for another page, and must get no leave."""
    asked = {
        "origin": "http://evil.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type,x-psoup",
        "access-control-request-private-network": "true",
    }
    preflight = page.send("OPTIONS", path_of(INFO), headers=asked)
    assert preflight.status == 403
    own = page.send("OPTIONS", path_of(INFO), headers={**asked, "origin": f"http://{page.place}"})
    assert own.status == 405
    answered = page.post(INFO, "{}", {"origin": f"http://{page.place}"})
    for response in (preflight, own, answered, page.send("GET", "/healthz"), page.send("GET", "/nothing")):
        assert not [name for name in response.headers if name.startswith("access-control")]


@pytest.mark.seeded("a refusal lacks the policy of the page")
def test_every_response_says_what_a_page_may_do_and_calls_are_not_stored(page: Page) -> None:
    responses = {
        "a call": page.post(INFO, "{}"),
        "a refused call": page.post(INFO, "{}", {"host": "evil.example"}),
        "an unknown call": page.post("QueryService/Nothing", "{}"),
        "no file": page.send("GET", "/nothing"),
        "health": page.send("GET", "/healthz"),
    }
    for what, response in responses.items():
        assert response.headers["content-security-policy"] == POLICY, what
        assert response.headers["x-content-type-options"] == "nosniff", what
        assert response.headers["referrer-policy"] == "no-referrer", what
        assert response.headers["x-frame-options"] == "DENY", what
        assert response.headers["cross-origin-resource-policy"] == "same-origin", what
        assert response.headers["cache-control"] == "no-store", what
        assert "set-cookie" not in response.headers, what
        assert "server" not in response.headers, what


def test_the_policy_allows_no_code_in_the_page_and_no_frame() -> None:
    assert POLICY.startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in POLICY and "form-action 'none'" in POLICY and "base-uri 'none'" in POLICY
    for loose in ("unsafe", "*", "http:", "https:", "data:", "blob:"):
        assert loose not in POLICY


def test_a_cookie_is_no_credential_and_no_body_no_query_string_is_read_as_one(page: Page) -> None:
    response = page.post(INFO, "{}", {"cookie": "token=psoup_x"})
    assert response.status == 200, "it is not looked at"
    assert "psoup_x" not in json.dumps(response.json)


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ("IngestService/PushRow", "did you mean /api/psoup.v1.IngestService/PushRows?"),
        ("QueryService/Ask", "did you mean /api/psoup.v1.StatementService/Ask?"),
        ("x" * 4_000, "see docs/web.md"),
    ],
)  # fmt: skip
def test_the_refusal_of_a_misspelt_call_names_the_call(page: Page, call: str, hint: str) -> None:
    reply = page.post(call, "{}")
    assert (reply.status, reply.json["message"]) == (404, f"there is no such call for a page; {hint}")
