"""The operations of rows in and out, which no .proto describes."""

from __future__ import annotations

from collections.abc import Mapping

from psoup_service.web.description.schemas import PARAMETERS, ROWS, WHOLE, Schema, reference
from psoup_service.web.row_paths import ANSWER_TYPES, ARROW, ASK, JSON, ROW_TYPES

ERROR: Schema = {
    "description": "The call was refused, or has failed.",
    "content": {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}},
}
_ERRORS: Schema = {
    "type": "object",
    "required": ["code", "message", "reason"],
    "properties": {
        "code": {"type": "string", "description": "The code of gRPC, such as INVALID_ARGUMENT."},
        "message": {"type": "string"},
        "reason": {"type": "string", "description": "The reason, for programs."},
        "metadata": {"type": "object", "additionalProperties": {"type": "string"}},
        "problem": {"type": "string", "description": "Of a statement: the message without the place."},
        "line": {"type": "integer", "description": "Of a statement: the line of the fault, from 1."},
        "column": {"type": "integer", "description": "Of a statement: the column of the fault, from 1."},
        "hint": {"type": "string", "description": "Of a statement: a way out."},
        "retryAfterMs": {"type": "integer", "description": "Milliseconds after which the same call may succeed."},
        "rows": {"type": "array", "items": reference("BadRow"), "description": "Of rows in: the bad rows."},
        "more": {"type": "boolean", "description": "Of rows in: whether more rows may be bad."},
        "lateLines": {"type": "array", "items": {"type": "integer"}},
        "aheadLines": {"type": "array", "items": {"type": "integer"}},
    },
}
_BAD_ROW: Schema = {
    "type": "object",
    "required": ["line", "message"],
    "properties": {
        "line": {"type": "integer", "description": "The line in the body, from 1; 0 for the whole body."},
        "column": {"type": "string"},
        "message": {"type": "string"},
    },
}
_TAKEN: Schema = {
    "type": "object",
    "required": ["sequence", "accepted", "late", "ahead", "duplicate", "replaced"],
    "properties": {
        "sequence": {**WHOLE, "description": "The number of the event. A read with it as minSequence shows the rows."},
        "accepted": {**WHOLE, "description": "Rows that were taken."},
        "late": {**WHOLE, "description": "Refused rows that are too late; only with refused=count."},
        "ahead": {
            **WHOLE,
            "description": "Refused rows that are too far ahead of the clock; only with refused=count.",
        },
        "watermark": {"type": "string", "format": "date-time"},
        "duplicate": {"type": "boolean", "description": "Whether the request was taken before, with this key."},
        "replaced": {**WHOLE, "description": "Of a table: taken rows that a later row of the request replaced."},
        "lateLines": {"type": "array", "items": {"type": "integer"}},
        "lateRows": {"type": "array", "items": WHOLE},
    },
}
_ANSWER: Schema = {
    "type": "object",
    "required": ["columns", "rows", "rowCount", "completeness"],
    "properties": {
        "columns": {
            "type": "array",
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "type": {"type": "string"}}},
        },
        "rows": ROWS,
        "rowCount": {"type": "integer"},
        "completeness": reference("Completeness"),
    },
}
_READ: Schema = {
    "asOf": {"type": "string", "format": "date-time", "description": "Answer as of this time."},
    "window": {"type": "string", "description": "Another window: BEGIN (NOW - 1 HOUR) END NOW."},
    "windows": {"type": "object", "additionalProperties": {"type": "string"}},
    "acceptTruncation": {"type": "boolean"},
    "minSequence": {**WHOLE, "description": "Wait until the answer reflects this event."},
}
_QUESTION: Schema = {
    "type": "object",
    "required": ["sql"],
    "properties": {"sql": {"type": "string"}, "parameters": PARAMETERS, **_READ},
}

SCHEMAS: Mapping[str, Schema] = {
    "Error": _ERRORS,
    "BadRow": _BAD_ROW,
    "RowsTaken": _TAKEN,
    "RowsAnswer": _ANSWER,
    "Question": _QUESTION,
    "Reading": {"type": "object", "properties": _READ},
}
"""Schemas of the operations."""

_BINARY: Schema = {"type": "string", "contentMediaType": ARROW}
_COMPLETENESS: Schema = {"description": "How complete the answer is, as JSON.", "schema": {"type": "string"}}


def _answer() -> Schema:
    forms = {kind: {"schema": {"type": "string"}} for kind in ANSWER_TYPES if kind not in (JSON, ARROW)}
    content = {JSON: {"schema": reference("RowsAnswer")}, **forms, ARROW: {"schema": _BINARY}}
    return {"description": "The answer.", "headers": {"psoup-completeness": _COMPLETENESS}, "content": content}


def _in_path(name: str, text: str) -> Schema:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}, "description": text}


def row_operations(header: Schema) -> Mapping[str, Schema]:
    """The paths of rows. `header`: the parameter X-Psoup."""
    return {
        "/api/streams/{stream}/rows": {"post": _push()},
        ASK: {"post": _ask(header)},
        "/api/queries/{key}/rows": {"post": _invoke(header)},
    }


def _push_parameters() -> list[Schema]:
    return [
        _in_path("stream", "The stream or table, in any case."),
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": True,
            "description": "A new text for each request, such as a UUID. A repeat with the same text is taken once.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 255},
        },
        {
            "name": "refused",
            "in": "query",
            "description": "raise: no row is taken if one is too late, or too far ahead of the clock."
            " count: such rows are counted, and the other rows are taken.",
            "schema": {"type": "string", "enum": ["raise", "count"], "default": "raise"},
        },
        {
            "name": "delimiter",
            "in": "query",
            "description": "For a CSV: the character between fields. By default it is detected.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 1},
        },
        {
            "name": "null",
            "in": "query",
            "description": "For a CSV: texts that mean NULL, besides an empty field.",
            "schema": {"type": "array", "items": {"type": "string"}},
        },
    ]


def _push() -> Schema:
    forms = sorted(set(ROW_TYPES.values()))
    return {
        "operationId": "pushRows",
        "tags": ["Rows"],
        "summary": "Pushes rows, once for each key, all of them or none.",
        "description": "NDJSON has an object on each line: the values of a row by column, as in PushRows. The"
        " reply comes when the rows are on disk and in answers. A refusal lists the bad rows by line, at most 100.",
        "parameters": _push_parameters(),
        "requestBody": {
            "required": True,
            "content": {form: {"schema": _BINARY if form == ARROW else {"type": "string"}} for form in forms},
        },
        "responses": {
            "200": {
                "description": "The rows were taken, now or before.",
                "content": {JSON: {"schema": reference("RowsTaken")}},
            },
            "409": {**ERROR, "description": "The key was used for another body."},
            "422": {**ERROR, "description": "Some rows are bad. None was taken."},
            "default": ERROR,
        },
    }


def _ask(header: Schema) -> Schema:
    return {
        "operationId": "askRows",
        "tags": ["Rows"],
        "summary": "Answers a SELECT.",
        "description": "As AskStream, in the form that Accept names.",
        "parameters": [header],
        "requestBody": {
            "required": True,
            "content": {
                JSON: {"schema": reference("Question")},
                "text/plain": {"schema": {"type": "string", "description": "The SELECT."}},
            },
        },
        "responses": {"200": _answer(), "default": ERROR},
    }


def _invoke(header: Schema) -> Schema:
    return {
        "operationId": "invokeRows",
        "tags": ["Rows"],
        "summary": "Answers a registered query.",
        "description": "As InvokeStream, in the form that Accept names.",
        "parameters": [_in_path("key", "The key with which the query was registered."), header],
        "requestBody": {"content": {JSON: {"schema": reference("Reading")}}},
        "responses": {"200": _answer(), "default": ERROR},
    }
