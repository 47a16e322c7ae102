"""How much room a command takes while it is under way (`room`): its tuples and its text, and a little."""

from __future__ import annotations

from psoup.events.commands import Command, CreateStream, Push, Register, RegisterMany

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
        case _:
            return COMMAND_BYTES
