"""Messages as schemas of JSON, by protobuf's mapping, with the fields that hold JSON over HTTP (`json_fields`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from psoup_service.web.json_fields import READ_FIELDS, WRITTEN_FIELDS

Schema = dict[str, Any]

WHOLE: Schema = {"type": ["string", "integer"], "format": "int64"}
"""A whole number of 64 bits. Replies have a text, because the numbers of many readers are doubles."""
ROWS: Schema = {"type": "array", "items": {"type": "object"}}
"""Rows, each with its values by column."""
PARAMETERS: Schema = {"type": ["array", "object", "string"], "description": "Values in order, or by name."}

_SIMPLE: Mapping[int, Schema] = {
    FieldDescriptor.CPPTYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.CPPTYPE_INT32: {"type": "integer", "format": "int32"},
    FieldDescriptor.CPPTYPE_UINT32: {"type": "integer", "format": "uint32", "minimum": 0},
    FieldDescriptor.CPPTYPE_INT64: WHOLE,
    FieldDescriptor.CPPTYPE_UINT64: WHOLE,
    FieldDescriptor.CPPTYPE_DOUBLE: {"type": ["number", "string"], "format": "double"},
    FieldDescriptor.CPPTYPE_FLOAT: {"type": ["number", "string"], "format": "float"},
}
_WELL_KNOWN: Mapping[str, Schema] = {
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.Duration": {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?s$"},
    "google.protobuf.Struct": {"type": "object"},
    "google.protobuf.Value": {},
    "google.protobuf.ListValue": {"type": "array"},
}


def short_name(full_name: str) -> str:
    """The name of a message or an enum among the schemas."""
    return full_name.removeprefix("psoup.v1.")


def reference(full_name: str) -> Schema:
    """A reference to the schema of a message or an enum."""
    return {"$ref": f"#/components/schemas/{short_name(full_name)}"}


class Schemas:
    """The schemas of all messages that calls need. `comments`: by full name."""

    def __init__(self, comments: Mapping[str, str]) -> None:
        self._comments = comments
        self.made = dict[str, Schema]()
        """By name, in the order in which they were needed."""

    def of(self, kind: Descriptor) -> Schema:
        """A reference to the schema of a message, which is made with all that it needs."""
        well_known = _WELL_KNOWN.get(kind.full_name)
        if well_known is not None:
            return dict(well_known)
        if short_name(kind.full_name) not in self.made:
            self.made[short_name(kind.full_name)] = schema = self._described({"type": "object"}, kind.full_name)
            schema["properties"] = {
                name: self._described(inner, f"{kind.full_name}.{field}") for name, field, inner in self._fields(kind)
            }
        return reference(kind.full_name)

    def _fields(self, kind: Descriptor) -> list[tuple[str, str, Schema]]:
        """The name in JSON, the field and the schema of each property."""
        properties = [(field.json_name, field.name, self._of_field(field)) for field in kind.fields]
        read = READ_FIELDS.get(kind.full_name)
        written = WRITTEN_FIELDS.get(kind.full_name)
        if read is not None:
            schema = ROWS if read[0] == "rows" else PARAMETERS
            properties = [(name, field, dict(schema) if name == read[0] else old) for name, field, old in properties]
        if written is not None:
            properties = [(name, field, dict(ROWS) if name == written[1] else old) for name, field, old in properties]
        return properties

    def _of_field(self, field: FieldDescriptor) -> Schema:
        kind = field.message_type
        if kind is not None and kind.GetOptions().map_entry:
            return {"type": "object", "additionalProperties": self._of_one(kind.fields_by_name["value"])}
        single = self._of_one(field)
        return {"type": "array", "items": single} if field.is_repeated else single

    def _of_one(self, field: FieldDescriptor) -> Schema:
        if field.message_type is not None:
            return self.of(field.message_type)
        if field.enum_type is not None:
            return self._of_enum(field.enum_type)
        if field.type == FieldDescriptor.TYPE_BYTES:
            return {"type": "string", "contentEncoding": "base64"}
        return dict(_SIMPLE.get(field.cpp_type, {"type": "string"}))

    def _of_enum(self, kind: EnumDescriptor) -> Schema:
        name = short_name(kind.full_name)
        if name not in self.made:
            values = [value.name for value in kind.values]
            lines = [f"- {value}: {self._comments.get(f'{kind.full_name}.{value}', '')}" for value in values]
            schema = self._described({"type": "string", "enum": values}, kind.full_name)
            schema["description"] = "\n".join([schema.get("description", ""), *lines]).strip()
            self.made[name] = schema
        return reference(kind.full_name)

    def _described(self, schema: Schema, full_name: str) -> Schema:
        comment = self._comments.get(full_name)
        return schema if comment is None else {**schema, "description": comment}
