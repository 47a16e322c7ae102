"""Bodies of calls that are wrong: what is wrong is told by field and place, in words that name no library.

Every field of every message that a page may send is given all sorts of values. What protobuf's own mapping takes is
taken, but for base64 with anything between, half of a character, a word's number as something else, and a field under
both of its names.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from google.protobuf import descriptor_pool, json_format
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from psoup.errors import InvalidInput
from psoup_proto.v1 import queries_pb2, sync_pb2
from psoup_service.web.bodies import LONG_BYTES, is_long, parsed
from psoup_service.web.json_fields import json_name
from psoup_service.web.methods import ALLOWED

REGISTER, SYNC, ROWS = queries_pb2.RegisterRequest, sync_pb2.SyncRequest, queries_pb2.InvokeRowsRequest
HALF = r"has half of a character, \\ud800 without its other half"
LIBRARY = re.compile(r"Error|Exception|google|json_|sys\.|codec|object of type|bytes-like|NoneType|descriptor|pb2|upb")
"""What no refusal says."""

VALUES: list[Any] = [
    0, 1, -1, 2**31 - 1, 2**31, 2**63, 1.0, 1.5, 1e400, float("nan"), True, False, None, "", "x", "5", "-5", "1e2",
    " 5", "+5", "1.5", "NaN", "\ud800", "a\udfffb", "é", "YQ==", "YQ", "+/-_", "!!!!", "a", "2024-02-29T12:00:00Z",
    "1.5s", "2024-02-30T12:00:00Z", [], [None], ["x"], [1], {}, {"a": "b"}, {"\ud800": "b"}, {"a": None}, [{}], 10**50,
]  # fmt: skip


def told(raw: str | bytes, kind: type[Message]) -> str:
    """What the refusal of a body says."""
    with pytest.raises(InvalidInput) as refused:
        parsed(raw if isinstance(raw, bytes) else raw.encode(), kind)
    assert refused.value.reason == "NOT_PROTOBUF"
    assert not LIBRARY.search(refused.value.message), refused.value.message
    refused.value.message.encode()
    return refused.value.message


@pytest.mark.parametrize(
    ("kind", "body", "why"),
    [
        (REGISTER, r'{"\ud800": 1}', rf"the name '\\ud800' {HALF}"),
        (REGISTER, r'{"statement": "x\ud800"}', f"statement {HALF}"),
        (REGISTER, r'{"labels": {"a": "\ud800"}}', rf"labels\['a'\] {HALF}"),
        (REGISTER, r'{"labels": {"\ud800": "a"}}', rf"the name '\\ud800' in labels {HALF}"),
        (REGISTER, '{"labels": {"a": {}}}', r"labels\['a'\] is not a text"),
        (REGISTER, '{"labels": []}', "labels is not an object"),
        (REGISTER, '{"statement": 5}', "statement is not a text"),
        (REGISTER, f'{{"statement": "{"x" * 131_073}"}}', "statement has more than 131,072 characters"),
        (REGISTER, '{"replace": "yes"}', "replace is neither true nor false"),
        (REGISTER, '{"key": "a", "key": "b"}', "the name 'key' is there twice in one object"),
        (REGISTER, '{"requestId": "a", "request_id": "b"}', "requestId is there twice, by both of its names"),
        (REGISTER, '{"nothing": 1}', "there is no field 'nothing'; the fields are statement, requestId, "),
        (REGISTER, '{"statement": "', "it is not JSON, at line 1, column 15"),
        (REGISTER, "{\n} x", "it is not JSON, at line 2, column 3"),
        (REGISTER, b'{"statement": "\xff"}', "it is not UTF-8 from byte 15 on"),
        (SYNC, '{"wants": [{}, {"token": "!!!"}]}', r"wants\[1\].token is not base64"),
        (SYNC, '{"wants": [{"token": "a"}]}', r"wants\[0\].token is not base64"),
        (SYNC, r'{"wants": [{"token": "\ud800"}]}', rf"wants\[0\].token {HALF}"),
        (SYNC, '{"wants": [{"nothing": 1}]}', r"there is no field 'nothing' in wants\[0\]; the fields are queryId, "),
        (SYNC, '{"wants": [null]}', r"wants\[0\] is not an object"),
        (SYNC, '{"wants": {}}', "wants is not a list"),
        (SYNC, '{"compression": "best"}', "compression is not one of COMPRESSION_UNSPECIFIED, "),
        (SYNC, '{"maxBytes": NaN}', "maxBytes is not a whole number"),
        (SYNC, '{"maxBytes": 1e400}', "maxBytes is not a whole number"),
        (SYNC, '{"maxBytes": 3000000000}', "maxBytes is not from -2147483648 to 2147483647"),
        (SYNC, '{"maxBytes": ' + "9" * 5_000 + "}", "maxBytes is not from -2147483648 to 2147483647"),
        (ROWS, '{"asOf": "yesterday"}', "asOf is not a text such as '2024-02-29T12:00:00Z'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(kind: type[Message], body: str | bytes, why: str) -> None:
    assert re.search(f"is not a message of this call: {why}", told(body, kind))


def kinds() -> list[type[Message]]:
    """The messages that a page may send."""
    pool = descriptor_pool.Default()
    methods = [
        pool.FindServiceByName(service).methods_by_name[name] for service in ALLOWED for name in ALLOWED[service]
    ]
    return [GetMessageClass(method.input_type) for method in methods]


def takes(kind: type[Message], body: Any) -> bool:
    """Whether protobuf's own mapping takes a body."""
    try:
        json_format.ParseDict(body, kind())
    except (json_format.ParseError, ValueError, TypeError, SystemError, AttributeError, OverflowError):
        return False
    return True


def strict(body: str) -> bool:
    """Whether a body has no half of a character, and no number that JSON has not."""
    return not any(part in body for part in ("\\ud800", "\\udfff", '" 5"', '"+5"'))


def bodies(kind: Descriptor) -> list[dict[str, Any]]:
    """A body for each field and value, those within lists of objects as well; none for a field of JSON."""
    made: list[dict[str, Any]] = []
    for field in kind.fields:
        if field.json_name == json_name(kind.full_name):
            continue
        made += [{field.json_name: value} for value in VALUES]
        inner = field.message_type
        if inner is not None and inner.file.package == "psoup.v1" and not inner.GetOptions().map_entry:
            within = bodies(inner)
            made += [{field.json_name: [value] if field.is_repeated else value} for value in within]
    return made


def test_all_sorts_of_values_are_taken_or_refused_in_words() -> None:
    taken = refused = 0
    for kind in kinds():
        for body in bodies(kind.DESCRIPTOR):
            text = json.dumps(body)
            try:
                parsed(text.encode(), kind)
            except InvalidInput as problem:
                refused += 1
                assert not LIBRARY.search(problem.message), problem.message
                assert "does not fit its field" not in problem.message, f"{text}: which one is not said"
                wide = re.search("is not (base64|one of)", problem.message) or not strict(text)
                wide = wide or (
                    text.endswith(('""}', "[]}")) and "is not an object" in problem.message
                )  # an empty object
                assert wide or not takes(kind, body), f"{kind.__name__} {text}: {problem.message}"
            else:
                taken += 1
                assert takes(kind, body), f"{kind.__name__} {text}"
    assert taken > 300 and refused > 1_000, (taken, refused)


@pytest.mark.parametrize("end", ["", "\\", '"', '"}', "\\u"])
def test_a_text_of_quotes_that_is_never_closed_is_read_once(end: str) -> None:
    """To begin anew at each quote took an hour, in which nothing else ran."""
    many = '{"statement": "' + '\\"' * 500_000 + end
    assert told(many, REGISTER) if end != '"}' else told(many, SYNC)


def test_a_whole_character_of_two_halves_is_taken() -> None:
    message = parsed(rb'{"statement": "\ud83d\ude00 \u00e9", "labels": {"\u00e9": "x"}}', REGISTER)
    assert (message.statement, dict(message.labels)) == ("\U0001f600 é", {"é": "x"})  # type: ignore[attr-defined]


def test_bodies_of_many_bytes_or_values_are_long() -> None:
    few, many = b'{"wants":[' + b"{}," * 100 + b"{}]}", b'{"wants":[' + b"{}," * 300 + b"{}]}"
    assert not is_long(few)
    assert is_long(many) and len(many) < LONG_BYTES
    assert not is_long(b" " * LONG_BYTES)
    assert is_long(b" " * (LONG_BYTES + 1))
    assert not is_long(b"")
