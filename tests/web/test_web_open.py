"""psoup open: the page of a service in a browser."""

from __future__ import annotations

import webbrowser

import pytest

from psoup_cli.commands.service.open import seen_from_here
from psoup_cli.main import main
from psoup_testing.services.threaded_service import Serving, serving


def opened(address: str, capfd: pytest.CaptureFixture[str]) -> tuple[int | str | None, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["open", "--address", address])
    out, err = capfd.readouterr()
    return ended.value.code, out.strip(), err


def test_the_page_is_opened_and_its_address_is_printed(
    served: Serving, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda page: not seen.append(page))
    gateway = served.service.gateway
    assert gateway is not None
    assert opened(served.address, capfd) == (0, gateway.address, "")
    assert seen == [gateway.address]
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    code, out, err = opened(served.address, capfd)
    assert (code, out) == (0, gateway.address) and "no browser here" in err


def test_a_service_without_a_page_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    with serving() as bare:
        code, out, err = opened(bare.address, capfd)
    assert (code, out) == (1, "") and "--web-port" in err


@pytest.mark.parametrize(
    ("page", "reached", "seen"),
    [
        ("http://127.0.0.1:7434", "127.0.0.1:7433", "http://127.0.0.1:7434"),
        ("https://0.0.0.0:7434", "https://psoup.example:7433", "https://psoup.example:7434"),
        ("https://0.0.0.0:7434", "unix:/run/psoup.sock", "https://localhost:7434"),
    ],
)
def test_the_address_is_that_which_a_browser_here_can_reach(page: str, reached: str, seen: str) -> None:
    assert seen_from_here(page, reached) == seen
