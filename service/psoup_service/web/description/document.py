"""The OpenAPI document: the calls that the gateway takes, and the schemas of their messages.

The list of calls (`psoup_service.web.methods`) decides which calls it describes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from google.protobuf.descriptor import MethodDescriptor

from psoup_proto.v1 import types_pb2
from psoup_service.web.description.comments import comments
from psoup_service.web.description.row_operations import ERROR, SCHEMAS, row_operations
from psoup_service.web.description.schemas import Schema, Schemas
from psoup_service.web.guard import CALLS

_HEADER: Schema = {
    "name": "X-Psoup",
    "in": "header",
    "description": "Always 1. A call needs this header or an access token: a page of another site can send neither.",
    "schema": {"type": "string", "enum": ["1"]},
}
_SENTENCE = re.compile(r"(.+?\.)(?:\s|$)", re.DOTALL)


def described(methods: Iterable[MethodDescriptor], version: str) -> dict[str, Any]:
    """The OpenAPI document that describes `methods` and the paths of rows. `version`: the service's version.

    O(fields of all messages): about ten milliseconds.
    """
    texts = comments()
    schemas, paths, tags = Schemas(texts), dict[str, Any](), dict[str, str]()
    for method in methods:
        service = method.containing_service
        tags[service.name] = texts.get(service.full_name, "")
        paths[f"{CALLS}{service.full_name}/{method.name}"] = {"post": _operation(method, schemas, texts)}
    schemas.of(types_pb2.Completeness.DESCRIPTOR)
    paths |= row_operations(_HEADER)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "PSoup",
            "version": version,
            "description": "Answers of standing SQL queries. Fields may also be spelled as in the .proto files"
            " (min_sequence).",
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": "Rows", "description": "Rows in and out, for curl and webhooks."}]
        + [{"name": name, "description": text} for name, text in tags.items()],
        "security": [{}, {"token": []}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": dict(sorted({**schemas.made, **SCHEMAS}.items())),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(method: MethodDescriptor, schemas: Schemas, texts: Any) -> Schema:
    text = texts.get(method.full_name, "")
    sentence = _SENTENCE.match(text)
    reply = {"schema": schemas.of(method.output_type)}
    streams = method.server_streaming
    return {
        "operationId": f"{method.containing_service.name}_{method.name}",
        "tags": [method.containing_service.name],
        "summary": " ".join(sentence[1].split()) if sentence else method.name,
        "description": text,
        "parameters": [_HEADER],
        "requestBody": {"required": True, "content": {"application/json": {"schema": schemas.of(method.input_type)}}},
        "responses": {
            "200": {
                "description": "Events, each with a message as its data; an event `error` may be the last."
                if streams
                else "The reply.",
                "content": {"text/event-stream" if streams else "application/json": reply},
            },
            "default": ERROR,
        },
    }
