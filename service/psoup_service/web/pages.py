"""The files of the page, in a table that is built once. Paths of requests are looked up there, and never on the disk.

/assets/index-4f2a.js   the name has a hash of the content: cached for ever      other files   checked each time (ETag)
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response

_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "ico": "image/x-icon",
    "json": "application/json",
    "webmanifest": "application/manifest+json",
    "woff2": "font/woff2",
    "txt": "text/plain; charset=utf-8",
}
"""The types of the files that are served, by the suffix of the name. Files with other suffixes are not served."""

_TEXTS = frozenset({"html", "js", "css", "svg", "json", "webmanifest", "txt"})
_FOR_EVER = "public, max-age=31536000, immutable"
_EACH_TIME = "no-cache"


@dataclass(frozen=True)
class SiteFile:
    """A file of the page. It is read at the first request for it."""

    path: str
    source: Traversable

    @property
    def kind(self) -> str:
        """The suffix of the file's name."""
        return self.path.rpartition(".")[2]

    @cached_property
    def content(self) -> bytes:
        """The bytes of the file."""
        return self.source.read_bytes()

    @cached_property
    def zipped(self) -> bytes:
        """The bytes of the file, compressed by gzip; b"" if that is not smaller."""
        shorter = gzip.compress(self.content, mtime=0) if self.kind in _TEXTS else b""
        return shorter if len(shorter) < len(self.content) else b""

    @cached_property
    def tag(self) -> str:
        """A tag that changes with the content."""
        return f'"{hashlib.sha256(self.content).hexdigest()[:24]}"'


class Site:
    """All files of a folder, by their paths; by default those that come with the package."""

    def __init__(self, folder: Traversable | None = None) -> None:
        pages = _found(files(__package__) / "static" if folder is None else folder, "")
        self._pages = {f"/{page.path}": page for page in pages}
        if "/index.html" in self._pages:
            self._pages["/"] = self._pages["/index.html"]

    def response(self, method: str, path: str, headers: Headers) -> Response:
        """The response to a request for a file."""
        if method not in ("GET", "HEAD"):
            return _text(f"files are read with GET, not {method[:10]!r}", 405, {"allow": "GET, HEAD"})
        page = self._pages.get(path)
        if page is None:
            return _text("there is no such file", 404)
        caching = {"cache-control": _FOR_EVER if path.startswith("/assets/") else _EACH_TIME, "etag": page.tag}
        caching["vary"] = "accept-encoding"
        if headers.get("if-none-match") == page.tag:
            return Response(status_code=304, headers=caching)
        content = page.content
        if page.zipped and "gzip" in headers.get("accept-encoding", ""):
            content, caching["content-encoding"] = page.zipped, "gzip"
        caching["content-type"] = _TYPES[page.kind]
        if method == "HEAD":
            return Response(headers={**caching, "content-length": str(len(content))})
        return Response(content, headers=caching)


def _found(folder: Traversable, below: str) -> list[SiteFile]:
    pages = list[SiteFile]()
    for entry in folder.iterdir() if folder.is_dir() else ():
        name = f"{below}{entry.name}"
        if entry.is_dir():
            pages += _found(entry, f"{name}/")
        elif name.rpartition(".")[2] in _TYPES:
            pages.append(SiteFile(name, entry))
    return pages


def _text(text: str, status: int, headers: dict[str, str] | None = None) -> Response:
    return PlainTextResponse(f"{text}\n", status, {"cache-control": "no-store", **(headers or {})})
