"""The values of settings: their checks, and the allowed ones in words, as `a whole number from 0 to 65,535`."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Union, get_args, get_origin
from urllib.parse import urlsplit

from pydantic.fields import FieldInfo

from psoup.errors import InvalidInput
from psoup_service.gate.certificate_roles import certificate_table
from psoup_service.gate.listeners import listener
from psoup_service.gate.page_origins import page_origins
from psoup_service.gate.provider import role_table
from psoup_service.gate.targets import origins_of

_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text that is not empty"}


def allowed(field: FieldInfo) -> str:
    """The allowed values of a setting, as words for the operator that gave another one."""
    kinds = _kinds(field.annotation)
    if len(kinds) > 1:
        return ", or ".join(allowed(FieldInfo.from_annotation(kind)) for kind in kinds)
    kind = kinds[0]
    if get_origin(kind) is tuple:
        return "a list of texts"
    if get_origin(kind) is Literal:
        *others, last = map(str, get_args(kind))
        return " or ".join(filter(None, (", ".join(others), last)))
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


def _kinds(annotation: Any) -> list[Any]:
    """The types of a setting, without None, which stands for a setting that is not set."""
    if get_origin(annotation) in (Union, types.UnionType):
        return [kind for kind in get_args(annotation) if kind is not type(None)]
    return [annotation]


def check_collector(endpoint: str) -> None:
    """Raise ValueError for a text that is not the URL of a collector, http or https, without a path. "" is allowed."""
    if endpoint and not _is_bare_url(endpoint):
        raise ValueError(
            f"{endpoint!r} is not the address of a collector: write http://HOST:PORT, or https://HOST:PORT with TLS;"
            " the port of OTLP over gRPC is 4317"
        )


def _check_places(texts: Iterable[str]) -> None:
    for text in texts:
        listener(text)


def _check_origins(hosts: Iterable[str]) -> None:
    _check(origins_of, hosts)


def _check_page_origins(origins: Iterable[str]) -> None:
    _check(page_origins, origins)


def _check(read: Callable[[Iterable[str]], object], texts: Iterable[str]) -> None:
    try:
        read(texts)
    except InvalidInput as problem:
        raise ValueError(problem.message) from None


def _is_bare_url(text: str) -> bool:
    """Whether a text is a URL of http or https with a host, and with nothing after the port."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    bare = parts.path in ("", "/") and not (parts.query or parts.fragment or parts.username)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and bare and port != 0


def _check_advertised(text: str) -> None:
    """Raise ValueError unless a client can take the text for an address, or it is empty."""
    if text and not _ADVERTISED.fullmatch(text):
        raise ValueError("it is not an address of a client: write HOST:PORT, https://HOST:PORT or unix:PATH")


_ADVERTISED = re.compile(r"(https://)?[^\s,/]+:[0-9]{1,5}|unix:[^\s,]+")


CHECKS: Mapping[str, Callable[[Any], object]] = {
    "listen": _check_places,
    "advertise": _check_advertised,
    "otlp_endpoint": check_collector,
    "certificate_roles": certificate_table,
    "oidc_roles": role_table,
    "web_origins": _check_page_origins,
    "webhook_hosts": _check_origins,
}
"""The checks of settings by name. Each raises ValueError for a value that is not valid."""
