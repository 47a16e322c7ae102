"""A check that JSON fits a message. It names the first value that does not fit, before the library reads the JSON.

    {"wants": [{"token": "a!"}]}     wants[0].token is not base64
    {"wants": {}}                    wants is not a list
    {"want": []}                     there is no field 'want'; the fields are wants, maxBytes, …

The mapping itself is done by `google.protobuf.json_format`. Its errors name its own exceptions, and it ignores invalid
characters in base64. The check accepts the same JSON, except for such base64, and for a field that is given by both
names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from psoup_service.wire.fields import MOST_TEXT

_SHOWN = 64
_TEXTS: Mapping[str, type[Duration | Timestamp]] = {
    "google.protobuf.Duration": Duration,
    "google.protobuf.Timestamp": Timestamp,
}
_BASE64 = re.compile(r"([A-Za-z0-9+/_-]*)={0,2}")
_NUMBER = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?")
_WHOLE = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64),
}
"""The range of each type: the least value, and the first value that is too large."""


class Misfit(Exception):
    """Raised for a value that does not fit. `why`: a sentence without its full stop."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def check(value: object, kind: type[Message], renamed: Mapping[str, str] = MappingProxyType({})) -> None:
    """Raise Misfit if a value of JSON is not a message of this kind. O(values in it), about a microsecond each.

    `renamed`: further names of fields, and the field that each stands for. A message has these names.
    """
    _check_object(value, cast(Descriptor, kind.DESCRIPTOR), "", renamed)


def _check_object(
    value: object, kind: Descriptor, place: str, renamed: Mapping[str, str] = MappingProxyType({})
) -> None:
    if not isinstance(value, dict):
        raise Misfit(f"{place or 'it'} is not an object")
    fields, seen = _fields(kind), set[str]()
    for name, inner in value.items():
        field = fields.get(name)
        if field is None:
            _check_whole_characters(name, f"the name {_said(name)}{_in(place)}")
            names = ", ".join(_named(kind, renamed))
            raise Misfit(f"there is no field {_said(name)}{_in(place)}; the fields are {names}")
        where = f"{place}.{field.name}" if place else field.name
        if field.name in seen:
            raise Misfit(f"{where} is there twice, by both of its names")
        seen.add(field.name)
        if inner is not None:
            field.check(inner, where)


_Check = Callable[[Any, str], None]
"""Raises Misfit for a value that does not fit. Its arguments are the value, and the place where the value stands."""


class _Field(NamedTuple):
    """A field by its name in JSON."""

    name: str
    check: _Check


@cache
def _fields(kind: Descriptor) -> Mapping[str, _Field]:
    """The fields of a message, by their names in the .proto and by their names in JSON."""
    return {name: _Field(field.json_name, _of_field(field)) for field in kind.fields for name in _names(field)}


def _names(field: FieldDescriptor) -> tuple[str, str]:
    return field.name, field.json_name


def _of_field(field: FieldDescriptor) -> _Check:
    """The check of a field. It checks each value of a map or a list."""
    is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
    checker = _of_one(cast(Descriptor, field.message_type).fields_by_name["value"] if is_map else field)

    def check_map(value: Any, place: str) -> None:
        if not isinstance(value, dict):
            raise Misfit(f"{place} is not an object")
        for name, inner in value.items():
            _check_whole_characters(name, f"the name {_said(name)} in {place}")
            checker(inner, f"{place}[{_said(name)}]")

    def check_list(value: Any, place: str) -> None:
        if not isinstance(value, list):
            raise Misfit(f"{place} is not a list")
        for number, inner in enumerate(value):
            checker(inner, f"{place}[{number}]")

    return check_map if is_map else check_list if field.is_repeated else checker


def _of_one(field: FieldDescriptor) -> _Check:
    """The check of a single value, or of a value of a map or a list."""
    if field.message_type is not None:
        text = _TEXTS.get(field.message_type.full_name)
        return partial(_check_object_of, field.message_type) if text is None else partial(_check_time, text)
    if field.cpp_type in _WHOLE:
        return partial(_check_whole, *_WHOLE[field.cpp_type])
    if field.enum_type is not None:
        return partial(
            _check_word, frozenset(field.enum_type.values_by_name), ", ".join(field.enum_type.values_by_name)
        )
    if field.type == FieldDescriptor.TYPE_BYTES:
        return _check_base64
    if field.type == FieldDescriptor.TYPE_STRING:
        return _check_text
    return _check_truth if field.type == FieldDescriptor.TYPE_BOOL else _check_number


def _check_object_of(kind: Descriptor, value: Any, place: str) -> None:
    _check_object(value, kind, place)


def _check_time(kind: type[Duration | Timestamp], value: Any, place: str) -> None:
    example = "2024-02-29T12:00:00Z" if kind is Timestamp else "1.5s"
    try:
        kind().FromJsonString(value)
    except (ValueError, TypeError, AttributeError, OverflowError):
        raise Misfit(f"{place} is not a text such as {example!r}") from None


def _check_text(value: Any, place: str) -> None:
    _check_characters(value, place)
    if len(value) > MOST_TEXT:
        raise Misfit(f"{place} has more than {MOST_TEXT:,} characters")


def _check_characters(value: Any, place: str) -> None:
    if not isinstance(value, str):
        raise Misfit(f"{place} is not a text")
    _check_whole_characters(value, place)


def is_base64(text: str) -> bool:
    """Whether a text is base64 of either alphabet, with or without padding."""
    match = _BASE64.fullmatch(text)
    return match is not None and len(match[1]) % 4 != 1


def _check_base64(value: Any, place: str) -> None:
    _check_characters(value, place)
    if not is_base64(value):
        raise Misfit(f"{place} is not base64")


def _check_whole_characters(text: str, subject: str) -> None:
    """Raise Misfit for a text with half of a surrogate pair, which JSON can write and UTF-8 cannot."""
    if text.isascii():
        return
    half = next((character for character in text if "\ud800" <= character <= "\udfff"), None)
    if half is not None:
        raise Misfit(f"{subject} has half of a character, \\u{ord(half):04x} without its other half")


def _check_word(words: Collection[str], listed: str, value: Any, place: str) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool) and -(2**31) <= value < 2**31
    if not (number and value == int(value)) and not (isinstance(value, str) and value in words):
        raise Misfit(f"{place} is not one of {listed}")


def _check_truth(value: Any, place: str) -> None:
    if not isinstance(value, bool):
        raise Misfit(f"{place} is neither true nor false")


def _check_number(value: Any, place: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | str) or not _NUMBER.fullmatch(str(value)):
        raise Misfit(f"{place} is not a number")


def _check_whole(bound: int, end: int, value: Any, place: str) -> None:
    if not bound <= _whole(value, place) < end:
        raise Misfit(f"{place} is not from {bound} to {end - 1}")


def _whole(value: Any, place: str) -> int:
    """A whole number, as a number or a text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        if value.removeprefix("-").isdecimal():
            return int(value)
        if (number := float(value)).is_integer():
            return int(number)
    raise Misfit(f"{place} is not a whole number")


def _named(kind: Descriptor, renamed: Mapping[str, str]) -> list[str]:
    shown = {field: name for name, field in renamed.items()}
    return [shown.get(field.name, field.json_name) for field in kind.fields]


def _in(place: str) -> str:
    return f" in {place}" if place else ""


def _said(name: str) -> str:
    """A name from the client, shortened and in ASCII."""
    return ascii(name[:_SHOWN])
