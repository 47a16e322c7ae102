"""The paths of rows, and the headers of requests to them.

POST /api/streams/trades/rows          rows in      Content-Type, Idempotency-Key, Content-Encoding
POST /api/ask                          rows out     Accept
POST /api/queries/alerts/rows          rows out     Accept
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from starlette.datastructures import Headers

from psoup.errors import InvalidInput

ASK = "/api/ask"
OPENAPI = "/api/openapi.json"
"""The path of the description of the calls."""
_PATH = re.compile(r"/api/(streams|queries)/([^/]+)/rows", re.ASCII)

NDJSON, CSV, ARROW, JSON = "application/x-ndjson", "text/csv", "application/vnd.apache.arrow.stream", "application/json"
_UNSAID = ("", "application/x-www-form-urlencoded")
"""Content types that do not name the form of the rows: none, and curl's default."""
ROW_TYPES = {NDJSON: NDJSON, "application/ndjson": NDJSON, "application/jsonl": NDJSON, CSV: CSV, ARROW: ARROW}
"""The content types of rows, and the form that each stands for."""
ANSWER_TYPES = (JSON, NDJSON, CSV, ARROW)
"""The media types of answers, the default first."""

KEY = "idempotency-key"
_MOST_KEY = 255
_KEY = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?", re.ASCII)
_ENCODINGS = ("", "identity", "gzip")
_QUALITY = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")
"""The pattern of a quality: RFC 9110, section 12.4.2."""


class RowsPath(NamedTuple):
    """A path of rows. `kind`: "streams", "queries" or "ask". `name`: the stream, or the key of the query."""

    kind: str
    name: str


def rows_path(raw: str) -> RowsPath | None:
    """Parse the path of a request line; None for a path without rows. Raises InvalidInput for an invalid name."""
    if raw == ASK:
        return RowsPath("ask", "")
    match = _PATH.fullmatch(raw)
    if match is None:
        return None
    try:
        return RowsPath(match[1], unquote_to_bytes(match[2]).decode())
    except UnicodeDecodeError:
        raise InvalidInput(
            f"the name in the path, {match[2][:100]!r}, is not UTF-8 in percent-encoding", reason="PATH_NAME"
        ) from None


def takes_rows(path: str) -> bool:
    """Whether a path takes rows. The path may be decoded or not."""
    return path.startswith("/api/streams/") and path.endswith("/rows")


def gives_rows(path: str) -> bool:
    """Whether a path returns rows. The path may be decoded or not."""
    return path == ASK or (path.startswith("/api/queries/") and path.endswith("/rows"))


def media_type(headers: Headers) -> str:
    """The media type of the body in lower case, "" without one. Raises InvalidInput for a charset other than UTF-8."""
    kind, _, parameters = headers.get("content-type", "").lower().partition(";")
    for parameter in parameters.split(";"):
        name, _, value = parameter.strip().partition("=")
        if name == "charset" and value.strip('"') not in ("utf-8", "utf8", "us-ascii"):
            raise InvalidInput(
                f"Content-Type has the charset {value[:40]!r}; send the body in UTF-8 (iconv -f {value[:40]} -t utf-8)",
                reason="CONTENT_TYPE",
            )
    return kind.strip()


def rows_type(headers: Headers) -> str:
    """The form of the rows in the body. A body without a content type is NDJSON. Raises InvalidInput."""
    kind = media_type(headers)
    form = NDJSON if kind in _UNSAID else ROW_TYPES.get(kind)
    if form is None:
        raise InvalidInput(
            f"Content-Type {kind[:100]!r} is not a form of rows; send {NDJSON}, {CSV} or {ARROW}", reason="CONTENT_TYPE"
        )
    return form


def idempotency_key(headers: Headers) -> str:
    """The key of a request with rows. Raises InvalidInput."""
    given = headers.getlist(KEY)
    if len(given) != 1:
        raise InvalidInput(
            f"a request with rows needs {'one header' if given else 'the header'} Idempotency-Key; send a new text with"
            " each request, such as a UUID, and the same text with a repeat, whose rows are then taken once",
            reason="IDEMPOTENCY_KEY",
            field="Idempotency-Key",
        )
    if len(given[0]) > _MOST_KEY or not _KEY.fullmatch(given[0]):
        raise InvalidInput(
            f"Idempotency-Key is {given[0][:100]!r}; write 1 to {_MOST_KEY} characters of ASCII",
            reason="IDEMPOTENCY_KEY",
            field="Idempotency-Key",
        )
    return given[0]


def is_zipped(headers: Headers) -> bool:
    """Whether the body is compressed by gzip. Raises InvalidInput for another encoding."""
    encoding = ",".join(headers.getlist("content-encoding")).strip().lower()
    if encoding not in _ENCODINGS:
        raise InvalidInput(
            f"Content-Encoding is {encoding[:100]!r}; send the body as it is, or as gzip", reason="CONTENT_ENCODING"
        )
    return encoding == "gzip"


def answer_type(headers: Headers) -> str:
    """The media type that the client prefers for an answer. Raises InvalidInput if it accepts none."""
    given = ",".join(headers.getlist("accept")) or "*/*"
    ranges = [_range(part) for part in given.split(",") if part.strip()]
    weighted = [(_quality(ranges, kind), -place, kind) for place, kind in enumerate(ANSWER_TYPES)]
    quality, _, kind = max(weighted)
    if quality <= 0:
        raise InvalidInput(
            f"no answer has a form of Accept, {given[:100]!r}; accept one of {', '.join(ANSWER_TYPES)}", reason="ACCEPT"
        )
    return kind


def _range(part: str) -> tuple[str, float]:
    """A range of Accept, and its quality from 0 to 1. An invalid quality counts as 0."""
    kind, *parameters = (text.strip().lower() for text in part.split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            return kind, float(value) if _QUALITY.fullmatch(value.strip()) else 0.0
    return kind, 1.0


def _quality(ranges: list[tuple[str, float]], kind: str) -> float:
    """The quality of a media type, by the most specific range that has it."""
    fitting: Mapping[str, float] = dict(reversed(ranges))
    names = [kind, *(name for name, form in ROW_TYPES.items() if form == kind), f"{kind.partition('/')[0]}/*", "*/*"]
    return next((fitting[name] for name in names if name in fitting), 0.0)
