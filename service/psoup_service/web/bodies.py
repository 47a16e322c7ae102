"""Bodies of calls: JSON of bounded time, size and depth, converted to messages; and messages converted to JSON.

    content-length ── too long: refused ── room ─> bytes, in time ─> few values, not deep ─> JSON ─> it fits ─> message

The mapping is protobuf's (`google.protobuf.json_format`). It is written in Python and takes some microseconds a value,
so long bodies are converted on a thread.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import orjson
from google.protobuf import json_format
from google.protobuf.message import Message

from psoup.errors import InvalidInput, ResourceExhausted
from psoup_service.web import json_fields
from psoup_service.web.json_check import Misfit, check

MOST_BYTES = 1024 * 1024
"""The most bytes of a body."""

MOST_DEPTH = 16
"""The most levels of nested objects and lists. Messages of the contract have at most six."""

MOST_VALUES = 50_000
"""The approximate most values of a body. A call for a thousand copies has six values for each."""

LONG_BYTES = 16 * 1024
"""The bytes of JSON, or of a message, above which a thread converts it."""

LONG_VALUES = 256
"""The values of a body above which a thread reads it: some two milliseconds."""

_DIGITS = 40
_SHOWN = 64
_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
"""Matches brackets, and whole texts, so that brackets inside texts do not count. An unclosed text extends to the end of
the body. Otherwise the expression would try each quote in it as a beginning: a megabyte of quotes takes an hour in
which no other thread runs.
"""


def length(given: list[str], limit: int = MOST_BYTES, way_out: str = "") -> int:
    """The length of a body, from the values of Content-Length. `way_out`: advice for a body that is too long.

    Raises InvalidInput without a valid length, and ResourceExhausted for more than `limit` bytes.
    """
    text = given[0] if len(given) == 1 else ""
    if not text.isascii() or not text.isdecimal() or len(text) > 19:
        raise InvalidInput(
            "the request needs one header Content-Length with the bytes of its body; curl --data-binary @FILE sends it",
            reason="LENGTH_REQUIRED",
        )
    if int(text) > limit:
        raise ResourceExhausted(
            f"the body has {int(text):,} bytes; at most {limit:,} are allowed{way_out}",
            reason="MESSAGE_TOO_LARGE",
            bytes=int(text),
            limit=limit,
        )
    return int(text)


def is_long(raw: bytes) -> bool:
    """Whether a body is so long that a thread must read it. O(bytes) of a short one."""
    return len(raw) > LONG_BYTES or _values(raw) > LONG_VALUES


def _values(raw: bytes) -> int:
    """An upper bound of the number of values in a body: commas and brackets inside texts are counted, too."""
    return raw.count(b",") + raw.count(b"{") + raw.count(b"[")


def parsed(raw: bytes, kind: type[Message], renamed: Mapping[str, str] = MappingProxyType({})) -> Message:
    """The message of a body. An empty body is an empty message. Raises InvalidInput.

    `renamed`: further names of fields, and the field that each stands for.
    """
    if _values(raw) > MOST_VALUES:
        raise _wrong(f"it has more than {MOST_VALUES:,} values")
    message = kind()
    if not raw:
        return message
    if not raw.lstrip().startswith(b"{"):
        raise _wrong("it is not an object")
    _check_depth(raw)
    try:
        name = kind.DESCRIPTOR.full_name
        with_json = bool(json_fields.json_name(name))
        body = (_WITH_JSON if with_json else _JSON).decode(raw.decode())
        values = json_fields.take(body, name) if with_json else {}
        _rename(body, renamed)
        check(body, kind, renamed)
        json_format.ParseDict(body, message, max_recursion_depth=MOST_DEPTH)
        json_fields.put(values, message)
    except UnicodeDecodeError as problem:
        raise _wrong(f"it is not UTF-8 from byte {problem.start} on") from None
    except json.JSONDecodeError as problem:
        where = f"line {problem.lineno}, column {problem.colno}"
        raise _wrong(f"it is not JSON, at {where}: {problem.msg}") from None
    except Misfit as problem:
        raise _wrong(problem.why) from None
    except (json_format.ParseError, ValueError, TypeError, RecursionError, SystemError):
        raise _wrong("one of its values does not fit its field") from None
    return message


def jsoned(message: Message) -> bytes:
    """A message as JSON. A field of JSON is taken out of the message."""
    values = json_fields.taken_out(message)
    return orjson.dumps({**json_format.MessageToDict(message), **values})


def _rename(body: Any, renamed: Mapping[str, str]) -> None:
    """Replace names of fields. Raises Misfit for a field that the body has by both of its names."""
    for name, field in renamed.items():
        if isinstance(body, dict) and name in body:
            if field in body:
                raise Misfit(f"{field} is there twice, by both of its names")
            body[field] = body.pop(name)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. Raises Misfit if it has a name twice, which would be ambiguous."""
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise Misfit(f"the name {twice[:_SHOWN]!a} is there twice in one object")
    return made


def _whole(digits: str) -> int:
    """A whole number. For very many digits, a placeholder that is too large for any field."""
    return int(digits[:_DIGITS])


_JSON = json.JSONDecoder(object_pairs_hook=_once, parse_int=_whole)
_WITH_JSON = json_fields.decoder(_once, _DIGITS)


def _check_depth(raw: bytes) -> None:
    """Raise InvalidInput for a body that is too deep. O(bytes) in C, and a step in Python for each bracket and text."""
    depth = 0
    for part in _STRUCTURE.finditer(raw):
        byte = part.group()[:1]
        if byte in b"[{":
            depth += 1
            if depth > MOST_DEPTH:
                raise _wrong(f"it has more than {MOST_DEPTH} objects and lists within one another")
        elif byte in b"]}":
            depth -= 1


def _wrong(why: str) -> InvalidInput:
    return InvalidInput(f"the body is not a message of this call: {why}; compare the .proto", reason="NOT_PROTOBUF")
