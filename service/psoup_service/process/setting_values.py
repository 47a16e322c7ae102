"""The values of a setting in words: `a whole number from 0 to 65,535`, `auto, json or console`."""

from __future__ import annotations

import types
from typing import Any, Literal, Union, get_args, get_origin
from urllib.parse import urlsplit

from pydantic.fields import FieldInfo

_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text that is not empty"}


def allowed(field: FieldInfo) -> str:
    """The allowed values of a setting, as words for the operator that gave another one."""
    kind = _kind(field.annotation)
    if get_origin(kind) is tuple:
        return "a list of texts"
    if get_origin(kind) is Literal:
        *others, last = map(str, get_args(kind))
        return f"{', '.join(others)} or {last}"
    limits = {
        name: limit
        for bound in field.metadata
        for name in ("ge", "gt", "le")
        if (limit := getattr(bound, name, None)) is not None
    }
    return f"{_KINDS[kind]}{_range(**limits)}"


def _range(ge: float | None = None, gt: float | None = None, le: float | None = None) -> str:
    if ge is not None:
        return f", {ge:,} or more" if le is None else f" from {ge:,} to {le:,}"
    if gt is not None:
        return f" over {gt:,}" if le is None else f" over {gt:,}, {le:,} at most"
    return ""


def _kind(annotation: Any) -> Any:
    """The type without None, which stands for a setting that is not set."""
    if get_origin(annotation) in (Union, types.UnionType):
        return next(kind for kind in get_args(annotation) if kind is not type(None))
    return annotation


def check_collector(endpoint: str) -> None:
    """Raise ValueError for a text that is not the URL of a collector, http or https, without a path. "" is allowed."""
    if endpoint and not _is_bare_url(endpoint):
        raise ValueError(
            f"{endpoint!r} is not the address of a collector: write http://HOST:PORT, or https://HOST:PORT with TLS;"
            " the port of OTLP over gRPC is 4317"
        )


def _is_bare_url(text: str) -> bool:
    """Whether a text is a URL of http or https with a host, and with nothing after the port."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    bare = parts.path in ("", "/") and not (parts.query or parts.fragment or parts.username)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and bare and port != 0
