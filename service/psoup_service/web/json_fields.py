"""Fields of messages that hold JSON: over HTTP they are the JSON itself, and not a text of it in base64.

    {"stream": "ads", "rows": [{"price": 1.50}]}     ──>   PushRowsRequest.rows = b'[{"price":1.50}]'
    {"statement": …, "parameters": ["IBM", 1e400]}   ──>   RegisterRequest.parameters_json = b'["IBM",1e400]'
    AskResponse.json_rows = b'[{"price":"1.50"}]'    ──>   {"jsonRows": [{"price": "1.50"}]}

Numbers keep the digits that the client wrote. So the service reads the same value over HTTP as over gRPC.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import orjson
from google.protobuf.message import Message

from psoup_service.web.json_check import Misfit, is_base64

READ_FIELDS = {
    "psoup.v1.PushRowsRequest": ("rows", "rows"),
    "psoup.v1.RegisterRequest": ("parameters", "parameters_json"),
    "psoup.v1.AskRequest": ("parameters", "parameters_json"),
    "psoup.v1.AskStreamRequest": ("parameters", "parameters_json"),
}
"""By the request: the name in JSON, and the field of the message. If they differ, the message also has a field
of bytes with that name, which a text gives in base64."""

WRITTEN_FIELDS = {
    "psoup.v1.InvokeRowsResponse": ("json_rows", "jsonRows"),
    "psoup.v1.AskResponse": ("json_rows", "jsonRows"),
}
"""By the reply: the field of the message, and its name in JSON."""

_LONG_DIGITS = 18
"""The most digits of a whole number that is certainly one of 64 bits."""


class _Fraction(float):
    """A number with a point or an exponent, and its text."""

    __slots__ = ("text",)
    text: str


class _Whole(int):
    """A whole number of many digits, and its text. Its value is cut, but too large for any field."""

    text: str


def json_name(kind: str) -> str:
    """The name in a body whose value is JSON; "" if there is none. `kind`: the full name of the request."""
    return READ_FIELDS.get(kind, ("",))[0]


def decoder(once: Callable[[list[tuple[str, Any]]], dict[str, Any]], digits: int) -> json.JSONDecoder:
    """A decoder whose numbers keep their texts. `once`: builds an object. `digits`: the most digits of a value."""

    def fraction(text: str) -> _Fraction:
        number = _Fraction(text)
        number.text = text
        return number

    def whole(text: str) -> int:
        if len(text) <= _LONG_DIGITS:
            return int(text)
        number = _Whole(text[:digits])
        number.text = text
        return number

    def constant(name: str) -> float:
        raise Misfit(f'{name} is not a number of JSON; for a DOUBLE write it as a text: "{name}"')

    return json.JSONDecoder(parse_float=fraction, parse_int=whole, parse_constant=constant, object_pairs_hook=once)


def take(body: Any, kind: str) -> Mapping[str, bytes]:
    """Take the JSON of a body out of it: the JSON of each field of the message. Raises Misfit. O(values)."""
    name, field = READ_FIELDS[kind]
    if not isinstance(body, dict) or name not in body:
        return {}
    if name != field and isinstance(body[name], str):
        if not is_base64(body[name]):
            raise Misfit(f"{name} is a text; write an array in order, or an object by name")
        return {}
    value = body.pop(name)
    if value is None:
        return {}
    try:
        return {field: orjson.dumps(value, default=_digits, option=orjson.OPT_PASSTHROUGH_SUBCLASS)}
    except orjson.JSONEncodeError:  # the depth is bounded, and all else is JSON
        raise Misfit(f"{name} has half of a character, a surrogate without its other half") from None


def put(values: Mapping[str, bytes], message: Message) -> None:
    """Set the fields of a message to their JSON. Raises Misfit for a field that the body has twice."""
    for field, value in values.items():
        if getattr(message, field):
            raise Misfit(f"{field} is there twice, as JSON and in base64")
        setattr(message, field, value)


def taken_out(message: Message) -> dict[str, orjson.Fragment]:
    """Take the JSON of a reply out of it, by its name in JSON. The message is changed."""
    if message.DESCRIPTOR.full_name not in WRITTEN_FIELDS:
        return {}
    field, name = WRITTEN_FIELDS[message.DESCRIPTOR.full_name]
    raw: bytes = getattr(message, field)
    if not raw:
        return {}
    message.ClearField(field)
    return {name: orjson.Fragment(raw)}


def _digits(value: _Fraction | _Whole) -> orjson.Fragment:
    return orjson.Fragment(value.text)
