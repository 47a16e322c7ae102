"""Messages of the contract as JSON that is not of the contract: webhooks, events and tools of assistants.

late_in_window: 0        the contract's names, as protobuf writes them; JSON over HTTP has lateInWindow
final: false             left out, as all fields that are not set
now: …                   "2024-05-01T12:00:00Z"
"""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from psoup_service.wire.json_answers import instant_text


def timestamp_text(moment: Timestamp) -> str:
    """A timestamp as ISO 8601 in UTC, to the microsecond."""
    return instant_text(moment.ToMicroseconds())


def plain_fields(message: Message) -> dict[str, Any]:
    """The fields of a message that are set: times as texts, values of enums by name. O(fields)."""
    plain = dict[str, Any]()
    for field, value in message.ListFields():
        if isinstance(value, Timestamp):
            plain[field.name] = timestamp_text(value)
        elif isinstance(value, Message):
            plain[field.name] = plain_fields(value)
        elif field.enum_type is not None:
            plain[field.name] = field.enum_type.values_by_number[value].name
        elif field.message_type is not None:
            plain[field.name] = [plain_fields(each) for each in value]
        else:
            plain[field.name] = value
    return plain
