"""Tools of assistants: each has arguments, a result, calls that it makes, and a mark if it only reads.

arguments ── check ─> run ─> result, within `Bounds`
                       └─ PSoupError ─> result with isError
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from google.protobuf import timestamp_pb2
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from psoup.errors import InvalidInput, ResourceExhausted
from psoup_service.assistants.calls import Bounds, McpCalls
from psoup_service.assistants.errors import ErrorFacts, wrong_arguments
from psoup_service.assistants.facts import Facts

_MOST_ARGUMENTS = 32


class Arguments(BaseModel):
    """Arguments of a tool."""

    model_config = ConfigDict(extra="forbid")


class Bounded(Arguments):
    """Arguments of a tool whose reply has rows."""

    max_rows: int | None = Field(
        default=None, ge=1, description="Rows in the reply at most; the service has a limit, too"
    )
    max_bytes: int | None = Field(
        default=None, ge=256, description="Bytes of the reply at most; the service has a limit, too"
    )

    def bounds(self, calls: McpCalls) -> Bounds:
        """The bounds of the reply."""
        return calls.bounds.within(self.max_rows, self.max_bytes)


class OfQuery(Arguments):
    """Arguments that name a query, by its key or its ID."""

    key: str | None = Field(default=None, description="The key of a registered query")
    query_id: str | None = Field(default=None, description="Instead of the key: the ID of the query")

    @model_validator(mode="after")
    def _one(self) -> OfQuery:
        if (self.key is None) == (self.query_id is None):
            raise ValueError("give key or query_id, and only one of them")
        return self

    @property
    def named(self) -> dict[str, Any]:
        """The key or the ID as fields of a request."""
        return {"key": self.key} if self.key is not None else {"query_id": self.query_id or ""}


@dataclass(frozen=True)
class Tool:
    """A tool. `text`: its description for models. `calls`: the calls that the caller's roles must allow.

    `output`: the class of its results. `run`: raises a PSoupError.
    """

    name: str
    title: str
    text: str
    arguments: type[Arguments]
    output: type[Facts]
    calls: tuple[str, ...]
    run: Callable[[McpCalls, Any], Awaitable[Facts]]
    reads: bool = True
    destroys: bool = False

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        schema = plain_schema(self.arguments)
        fields = schema["properties"]
        schema["properties"] = dict(sorted(fields.items(), key=lambda field: field[0] in Bounded.model_fields))
        return schema

    @cached_property
    def output_schema(self) -> dict[str, Any]:
        """The JSON schema of the results, and of errors."""
        return _or_error(plain_schema(self.output))

    async def call(self, calls: McpCalls, arguments: dict[str, Any]) -> Facts:
        """The result for some arguments. Raises a PSoupError."""
        if len(arguments) > _MOST_ARGUMENTS:
            raise InvalidInput(
                f"{len(arguments):,} arguments are given, and the tool {self.name} has"
                f" {len(self.arguments.model_fields)}",
                reason="ARGUMENTS",
            )
        try:
            given = self.arguments.model_validate(arguments)
        except ValidationError as problem:
            raise wrong_arguments(problem, list(self.input_schema["properties"])) from None
        result = await self.run(calls, given)
        size = result.size()
        if size > calls.bounds.size:
            raise ResourceExhausted(
                f"the reply takes {size:,} bytes; the limit is {calls.bounds.size:,}: ask for fewer rows or columns",
                reason="REPLY_TOO_LARGE",
                bytes=size,
                limit=calls.bounds.size,
            )
        return result


def instant(text: str | None, field: str) -> timestamp_pb2.Timestamp | None:
    """A time of ISO 8601; without a zone it is UTC. Raises InvalidInput."""
    if text is None:
        return None
    moment = timestamp_pb2.Timestamp()
    try:
        given = datetime.fromisoformat(text)
        moment.FromDatetime(given if given.tzinfo else given.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise InvalidInput(
            f"{field} is {text[:64]!r}, which is not a time; write 2024-05-01T12:00:00Z", field=field
        ) from None
    return moment


def token_text(token: bytes) -> str:
    """A token as text."""
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


def token_bytes(text: str, field: str) -> bytes:
    """The token in a text. Raises InvalidInput."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput(
            f"{field} was not made by this service; leave it out to begin anew",
            reason="TOKEN_INVALID",
            field=field,
        ) from None


def _or_error(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a result or an error. Some clients also validate results that are errors."""
    fault = plain_schema(ErrorFacts)
    return {
        "type": "object",
        "properties": {**schema["properties"], "error": fault},
        "anyOf": [{"required": schema.get("required", [])}, {"required": ["error"]}],
        "$defs": schema.get("$defs", {}),
    }


def plain_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a class, in a short form for models.

    Pydantic's titles are removed, as they repeat the names. A field that may be left out has one type, without null.
    """
    schema: dict[str, Any] = _plain(model.model_json_schema())
    return schema


def _plain(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_plain(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) == 1 and schema.get("default", 0) is None:
        rest = {name: value for name, value in schema.items() if name not in ("anyOf", "default")}
        return _plain({**kinds[0], **rest})
    return {
        name: {field: _plain(part) for field, part in value.items()} if name == "properties" else _plain(value)
        for name, value in schema.items()
        if name != "title" or not isinstance(value, str)
    }
