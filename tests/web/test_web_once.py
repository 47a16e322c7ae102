"""The rows of a SELECT that is not registered, as a page reads them."""

from __future__ import annotations

import base64

import pyarrow as pa
import pytest

from psoup_client import Client
from psoup_service.wire.answers import END_MARK
from psoup_testing.browser.page_requests import Page
from psoup_testing.services.threaded_service import Serving

ASK = "StatementService/AskStream"


@pytest.mark.seeded("a reply that is serialized already cannot be sent to a page")
def test_a_page_reads_the_rows_of_a_select_that_is_not_registered(page: Page, served: Serving) -> None:
    with Client(served.address) as soup:
        soup.create_stream("CREATE STREAM once (n BIGINT)")
        soup.wait_for(soup.push("once", [{"n": 1}, {"n": 2}]).sequence)
    with page.events(ASK, {"statement": "SELECT n, n > 1 AS more FROM once"}) as events:
        pieces = [data for _kind, data in events]
    raw = b"".join(base64.b64decode(piece.get("arrowIpc", "")) for piece in pieces)
    assert raw.endswith(END_MARK)
    assert pa.ipc.open_stream(raw).read_all().to_pydict() == {"n": [1, 2], "more": [False, True]}
    assert "completeness" in pieces[0]
    assert page.call("QueryService/ListQueries", {"stream": "once"}) == {}


def test_what_is_wrong_with_it_is_told_before_rows(page: Page) -> None:
    response = page.post(ASK, '{"statement": "SELECT m FROM once_not"}')
    assert (response.status, response.json["reason"]) == (400, "UNKNOWN_STREAM")
