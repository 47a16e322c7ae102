"""Values in Avro, in the frame of the schema registry: a zero byte, the schema's ID in four bytes, the value.

    00 00 00 00 2a …   ──> GET /schemas/ids/42, once ──> fastavro reads the value

Reference: "Wire format" in the manual of Confluent's Schema Registry. Its settings: `url`, `basic.auth.user.info`
(USER:PASSWORD) and `ssl.ca.location`. A schema that does not come is an error of the feed, and no fault of the record.
"""

from __future__ import annotations

import base64
import io
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Mapping
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from psoup_client import (
    AccessDenied,
    FailedPrecondition,
    InvalidData,
    InvalidRequest,
    NotFound,
    PSoupError,
    Unavailable,
)

FRAME_BYTES = 5
"""The bytes before the value."""

_SECONDS = 10.0
_MOST_BYTES = 16 * 1024 * 1024
_SETTINGS = frozenset({"url", "basic.auth.user.info", "ssl.ca.location"})


class SchemaRegistry:
    """A schema registry. Schemas are asked for once, as the schema of an ID never changes."""

    def __init__(self, url: str, config: Mapping[str, str] | None = None) -> None:
        config = config or {}
        for name in config:
            if name not in _SETTINGS:
                raise InvalidRequest(
                    f"schema.registry.{name} is not a setting that psoup knows, only"
                    f" {', '.join(f'schema.registry.{known}' for known in sorted(_SETTINGS))}"
                )
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidRequest(f"--schema-registry {url!r}: give its URL, such as http://registry.example.org:8081")
        self._url = url.rstrip("/")
        login = config.get("basic.auth.user.info", "")
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json"}
        if login:
            self._headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        self._tls = (
            ssl.create_default_context(cafile=config.get("ssl.ca.location")) if parts.scheme == "https" else None
        )
        self._schemas = dict[int, Any]()

    def schema(self, number: int) -> Any:
        """The parsed schema of an ID. Raises NotFound, Unavailable, AccessDenied, and FailedPrecondition if it is not
        of Avro.
        """
        if number not in self._schemas:
            reply = self._get(f"/schemas/ids/{number}")
            if reply.get("schemaType", "AVRO") != "AVRO":
                raise FailedPrecondition(
                    f"schema {number} is of {reply['schemaType']}, and --format avro reads Avro; give --format json if"
                    " the records are plain JSON",
                    reason="SCHEMA_TYPE",
                )
            self._schemas[number] = self._parsed(reply, {}, set())
        return self._schemas[number]

    def _parsed(self, reply: Mapping[str, Any], named: dict[str, Any], paths: set[str]) -> Any:
        """Parse a schema after the schemas that it refers to. Each of these is read once, also if they form a circle.

        `paths`: the paths of the schemas that were read already, for the schema or for `named`.
        """
        for reference in reply.get("references", ()):
            subject = urllib.parse.quote(str(reference["subject"]), safe="")
            path = f"/subjects/{subject}/versions/{int(reference['version'])}"
            if path not in paths:
                paths.add(path)
                self._parsed(self._get(path), named, paths)
        try:
            return fastavro.parse_schema(json.loads(reply["schema"]), named_schemas=named)
        except (SchemaParseException, UnknownType, ValueError, KeyError) as problem:
            raise FailedPrecondition(f"the schema registry has a schema that cannot be read: {problem}") from problem

    def _get(self, path: str) -> dict[str, Any]:
        request = urllib.request.Request(self._url + path, headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS, context=self._tls) as reply:
                value = json.loads(reply.read(_MOST_BYTES))
        except urllib.error.HTTPError as problem:
            raise self._refused(problem, path) from problem
        except (OSError, ValueError) as problem:
            raise Unavailable(
                f"the schema registry {self._url} does not answer: {problem}; check --schema-registry",
                reason="REGISTRY_UNAVAILABLE",
            ) from problem
        if not isinstance(value, dict):
            raise Unavailable(
                f"{self._url}{path} is not a schema; check --schema-registry", reason="REGISTRY_UNAVAILABLE"
            )
        return value

    def _refused(self, problem: urllib.error.HTTPError, path: str) -> PSoupError:
        said = f"the schema registry {self._url} replied {problem.code} to GET {path}"
        if problem.code == 404:
            return NotFound(
                f"{said}: it does not know this schema; is it the registry of this topic?", reason="UNKNOWN_SCHEMA"
            )
        if problem.code in (401, 403):
            return AccessDenied(f"{said}; --kafka-config-file takes schema.registry.basic.auth.user.info=USER:PASSWORD")
        return Unavailable(said, reason="REGISTRY_UNAVAILABLE")


class AvroValues:
    """Reads values and keys in Avro."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry

    def value(self, data: bytes) -> Any:
        """Read one value. Raises InvalidData for bytes of another form; errors of the registry pass."""
        if len(data) < FRAME_BYTES or data[0]:
            raise InvalidData(
                "it is not Avro of a schema registry, which begins with a zero byte and the schema's ID in four bytes"
            )
        number = int.from_bytes(data[1:FRAME_BYTES], "big")
        try:
            schema = self._registry.schema(number)
        except NotFound as problem:
            raise InvalidData(problem.message) from problem
        file = io.BytesIO(data)
        file.seek(FRAME_BYTES)
        try:
            value = fastavro.schemaless_reader(file, schema, None)
        except RecursionError:
            raise InvalidData("it is nested too deeply") from None
        except Exception as problem:  # fastavro raises errors of many kinds for bytes that do not follow the schema
            raise InvalidData(
                f"it does not follow schema {number}: {type(problem).__name__} {problem}".strip()
            ) from None
        if file.tell() != len(data):
            raise InvalidData(f"it has {len(data) - file.tell():,} bytes behind the value of schema {number}")
        return _plain(value)


def _plain(value: Any) -> Any:
    """The value with UUIDs as texts, which is their form in Avro."""
    if isinstance(value, dict):
        return {name: str(item) if isinstance(item, uuid.UUID) else item for name, item in value.items()}
    return value
