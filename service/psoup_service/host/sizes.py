"""What the host asks of a command: the room it takes under way, whether it fills the disk, whose order it must keep.

Each is told here, once for all commands: the type checker fails if one is forgotten.
"""

from __future__ import annotations

from typing import assert_never

from psoup.events.commands import (
    AlterStream,
    Attach,
    Command,
    CreateStream,
    DropStream,
    Heartbeat,
    Push,
    Recall,
    Register,
    RegisterMany,
    Unregister,
)

StreamKey = tuple[str, str]
"""A tenant, and the name of its stream in lower case."""

COMMAND_BYTES = 1_000
"""Room that a command takes beside its tuples and its text."""
ROW_BYTES = 64
"""Bytes that the parameters of a query take, about."""


def size_of(command: Command) -> int:
    """Bytes of room that a command takes."""
    match command:
        case Push():
            return COMMAND_BYTES + int(command.table.get_total_buffer_size())
        case RegisterMany():
            texts = sum(map(len, command.statements))
            if command.rows is not None:
                texts = command.count * (texts + ROW_BYTES)
            return COMMAND_BYTES + texts
        case Register() | CreateStream():
            return COMMAND_BYTES + len(command.sql)
        case AlterStream() | DropStream() | Recall() | Attach() | Heartbeat() | Unregister():
            return COMMAND_BYTES
        case _:
            assert_never(command)


def grows(command: Command) -> bool:
    """Whether a store without room refuses a command; to drop and to unregister is the way out of that."""
    match command:
        case Push() | Register() | RegisterMany() | CreateStream() | Attach():
            return True
        case AlterStream() | DropStream() | Recall() | Heartbeat() | Unregister():
            return False
        case _:
            assert_never(command)


def stream_of(command: Command) -> StreamKey | None:
    """The stream whose commands must keep their order; None for a command that may overtake and be overtaken."""
    match command:
        case Push() | Recall() | Heartbeat() | Attach():
            return command.tenant, command.stream.lower()
        case CreateStream() | AlterStream() | DropStream() | Register() | RegisterMany() | Unregister():
            return None
        case _:
            assert_never(command)
