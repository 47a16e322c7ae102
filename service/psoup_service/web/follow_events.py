"""Matches of a stream as a `text/event-stream`: GET /follow?stream=ads, for a browser's EventSource and for fetch.

    stream=ads&label=user=u1&key=…&query=…&old=true&after=start     the request, as in follow.proto
    Last-Event-ID                                                   the position to go on from; counts before `after`

    id: p1-…                    the position after the event
    data: {"matches": [{"tuple": {…}, "queries": [{"query_id": …, "key": …, "labels": {…}}]}], "lag": 0, "left_out": 0}

    "change": "came"            of a query of a table, also "stays" and "left": see `change` in follow.proto

    event: reset                the position could not be continued; the data says what was missed
    : lag 0                     a comment with a later position, at least every 15 seconds

An access token comes in the header `authorization`, never in the address, which proxies and browsers keep.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import orjson
import pyarrow as pa
from google.protobuf.message import Message

from psoup.errors import InvalidInput
from psoup_proto.v1 import follow_pb2
from psoup_service.web.bodies import LONG_BYTES
from psoup_service.web.calls import WebCaller
from psoup_service.wire.json_answers import plain_rows
from psoup_service.wire.written import Written

METHOD = "psoup.v1.FollowService/Follow"
"""The call that an event stream makes."""

_MOST_ROWS = 1_000
_MOST_BYTES = 256 * 1024
_RETRY_MS = 2_000
"""The milliseconds after which a browser opens a lost event stream again."""
_CHANGES = ("came", "stays", "left")
"""The words for the numbers of changes in follow.proto."""
_SECRETS = frozenset({"token", "access_token", "authorization", "bearer"})


class FollowEvents(WebCaller):
    """A caller of `Follow` by GET /follow. Parameters of the URL are its request, and its replies are events."""

    __slots__ = ()

    async def read(self) -> Message:
        """The request. Raises InvalidInput."""
        given = self._headers.getlist("last-event-id")
        request = request_of(self._scope["query_string"])
        if len(given) > 1:
            raise InvalidInput("Last-Event-ID is there twice; send one position", field="last-event-id")
        if given and given[0]:
            request.after = given[0]
        return request

    async def write(self, reply: Message | Written) -> None:
        """Send a batch as an event."""
        assert isinstance(reply, follow_pb2.FollowResponse)
        begin = b"" if self.started else b"retry: %d\n" % _RETRY_MS
        size = reply.ByteSize()
        if size <= LONG_BYTES:
            event = event_of(reply)
        else:
            event = await self._calls.decoders.run(self.peer(), size, lambda: event_of(reply))
        await self.send(begin + event)


def request_of(query: bytes) -> follow_pb2.FollowRequest:
    """The request in the parameters of a path. Raises InvalidInput for an unknown, repeated or missing parameter."""
    request = follow_pb2.FollowRequest(max_rows=_MOST_ROWS, max_bytes=_MOST_BYTES)
    seen = set[str]()
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, strict_parsing=bool(query), errors="strict")
    except ValueError:
        raise InvalidInput(
            "the address is not a list of NAME=VALUE with & between them, in UTF-8", reason="ADDRESS"
        ) from None
    for name, value in pairs:
        if name.lower() in _SECRETS:
            raise InvalidInput(
                f"{name} is in the address, which browsers and proxies keep: send the access token in the header"
                " authorization, as 'Bearer TOKEN', and replace this token, because it may be known now",
                reason="TOKEN_IN_ADDRESS",
                field=name,
            )
        setter = _PARAMETERS.get(name)
        if setter is None:
            names = ", ".join(_PARAMETERS)
            raise InvalidInput(f"there is no parameter {name[:64]!r}; there are {names}", reason="ADDRESS", field="")
        if name in seen and name not in _REPEATABLE:
            raise InvalidInput(f"{name} is there twice; give it once", reason="ADDRESS", field=name)
        seen.add(name)
        setter(request, value)
    if not request.stream:
        raise InvalidInput("the address names no stream: /follow?stream=NAME", reason="ADDRESS", field="stream")
    return request


def _text(field: str) -> Callable[[follow_pb2.FollowRequest, str], None]:
    return lambda request, value: setattr(request, field, value)


def _add_label(request: follow_pb2.FollowRequest, value: str) -> None:
    name, equals, label = value.partition("=")
    if not (name and equals and label):
        raise InvalidInput(f"label is {value[:64]!r}; give label=NAME=VALUE", reason="ADDRESS", field="label")
    if request.labels.get(name, label) != label:
        raise InvalidInput(f"label {name[:64]!r} is there with two values", reason="ADDRESS", field="label")
    request.labels[name] = label


def _set_old(request: follow_pb2.FollowRequest, value: str) -> None:
    if value not in ("true", "false"):
        raise InvalidInput(f"old is {value[:64]!r}; it is true or false", reason="ADDRESS", field="old")
    request.old = value == "true"


_PARAMETERS: dict[str, Callable[[follow_pb2.FollowRequest, str], None]] = {
    "stream": _text("stream"),
    "after": _text("after"),
    "label": _add_label,
    "key": lambda request, value: request.keys.append(value),
    "query": lambda request, value: request.query_ids.append(value),
    "old": _set_old,
    "name": _text("name"),
}
"""The parameters of the path, and the function that sets each in the request."""

_REPEATABLE = frozenset({"label", "key", "query"})


def event_of(message: follow_pb2.FollowResponse) -> bytes:
    """A batch as an event with its position. A batch without matches is a comment, which moves the position."""
    place = b"id: %b\n" % message.position.encode()
    if message.HasField("reset"):
        reset = message.reset
        facts: dict[str, Any] = {
            "reason": follow_pb2.FollowResetReason.Name(reset.reason).removeprefix("FOLLOW_RESET_REASON_"),
            "message": reset.message,
            "missed": reset.missed if reset.HasField("missed") else None,
            "first_id": reset.first_id,
        }
        return place + b"event: reset\ndata: %b\n\n" % orjson.dumps(facts)
    if not message.matches_ipc:
        return b": lag %d\n" % message.lag + place + b"\n"
    facts = {"matches": _matches(message), "lag": message.lag, "left_out": message.left_out}
    return place + b"data: %b\n\n" % orjson.dumps(facts)


def _matches(message: follow_pb2.FollowResponse) -> list[dict[str, Any]]:
    """The tuples of a batch with their queries, in stream order."""
    tags = {
        tag["query"]: {
            "query_id": f"{message.query_id_prefix}{tag['query']}",
            "key": tag["key"],
            "labels": dict(tag["labels"]),
        }
        for tag in _read(message.queries_ipc).to_pylist()
    }
    matches: dict[int, dict[str, Any]] = {
        int(row["_id"]): {"tuple": row, "queries": []}
        for batch in _read(message.tuples_ipc).to_batches()
        for row in plain_rows(batch)
    }
    for pair in _read(message.matches_ipc).to_pylist():
        change = {"change": _CHANGES[pair["change"]]} if "change" in pair else {}
        matches[pair["tuple_id"]]["queries"].append(tags[pair["query"]] | change)
    return list(matches.values())


def _read(raw: bytes) -> pa.Table:
    with pa.ipc.open_stream(raw) as reader:
        return reader.read_all()
