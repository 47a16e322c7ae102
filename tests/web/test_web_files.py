"""Files of the page: how they are kept, what they are, and that nothing else is served."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from starlette.datastructures import Headers

from psoup_service.web.pages import Site
from psoup_testing.browser.page_requests import Page


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A site of a few files, in a folder with others."""
    folder = tmp_path / "static"
    (folder / "assets").mkdir(parents=True)
    for name, text in {
        "index.html": "<!doctype html>" + "x" * 1_000,
        "sw.js": "self",
        "manifest.webmanifest": "{}",
        "assets/index-4f2a.js": "y" * 1_000,
        "notes.md": "no",
        ".hidden": "no",
    }.items():
        (folder / name).write_text(text)
    (tmp_path / "secret.txt").write_text("secret")
    return Site(folder)


def asked(site: Site, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    response = site.response(method, path, Headers(sent))
    return response.status_code, dict(response.headers), bytes(response.body)


def test_files_have_their_types_and_are_kept_as_their_names_allow(site: Site) -> None:
    kinds = {
        "/": "text/html; charset=utf-8",
        "/index.html": "text/html; charset=utf-8",
        "/sw.js": "text/javascript; charset=utf-8",
        "/manifest.webmanifest": "application/manifest+json",
        "/assets/index-4f2a.js": "text/javascript; charset=utf-8",
    }
    for path, kind in kinds.items():
        status, headers, body = asked(site, path)
        assert (status, headers["content-type"]) == (200, kind)
        assert int(headers["content-length"]) == len(body)
        kept = "public, max-age=31536000, immutable" if path.startswith("/assets/") else "no-cache"
        assert headers["cache-control"] == kept


def test_a_file_that_is_known_is_not_sent_again_and_texts_come_shorter(site: Site) -> None:
    _, headers, plain = asked(site, "/")
    assert asked(site, "/", if_none_match=headers["etag"])[::2] == (304, b"")
    status, zipped, body = asked(site, "/", accept_encoding="gzip, br")
    assert (status, zipped["content-encoding"], gzip.decompress(body)) == (200, "gzip", plain)
    assert "content-encoding" not in asked(site, "/sw.js", accept_encoding="gzip")[1], "it would not be shorter"
    _, head, nothing = asked(site, "/", method="HEAD")
    assert (head["content-length"], nothing) == (str(len(plain)), b"")


@pytest.mark.seeded("the path of a request becomes a path of the disk")
@pytest.mark.parametrize(
    "path",
    ["/../secret.txt", "/assets/../../secret.txt", "//secret.txt", "/notes.md", "/.hidden", "/assets", "/assets/",
     "/index.html/", "/%2e%2e/secret.txt", "/INDEX.html", "", "/\x00"],
)  # fmt: skip
def test_nothing_but_the_files_of_the_table_is_served(site: Site, path: str) -> None:
    assert asked(site, path)[0] == 404


def test_files_are_read_and_nothing_else(site: Site, page: Page) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert asked(site, "/", method=method)[0] == 405
    with page.raw() as opened:
        opened.sendall(b"GET /assets/../../gateway.py HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert opened.recv(4096).split()[1] == b"404"


def test_the_page_that_comes_with_the_package_is_whole(page: Page) -> None:
    """Each file that the page names is there, and it has no code in itself: the policy would not run it."""
    shown = page.send("GET", "/")
    assert shown.status == 200
    text = shown.body.decode()
    named = [part.split('"')[0] for part in text.replace('href="', 'src="').split('src="')[1:]]
    assert named
    for path in named:
        assert page.send("GET", path if path.startswith("/") else f"/{path.removeprefix('./')}").status == 200, path
    assert "<style" not in text and "style=" not in text and "onload=" not in text
    assert not re.search(r"<script(?![^>]* src=)", text)
    assert page.send("GET", "/sw.js").status == page.send("GET", "/manifest.webmanifest").status == 200
