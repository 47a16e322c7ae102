"""Facts about each kind of command: its size, its tenant, its stream, and whether it fills the disk.

Each fact has one function for all commands. The type checker fails if a function forgets a kind.
"""

from __future__ import annotations

from typing import assert_never

from psoup.events.access import IssueToken, RevokeToken
from psoup.events.commands import (
    AlterQueries,
    AlterStream,
    Attach,
    CloseInstants,
    Command,
    CreateStream,
    DropStream,
    ExpireRows,
    Heartbeat,
    Locate,
    Push,
    PushDerived,
    RaiseWatermarks,
    Recall,
    Register,
    RegisterMany,
    ReleasePins,
    StopPump,
    Unregister,
    UnregisterMany,
)
from psoup.events.groups import ConfirmGroup, DropGroup, FormGroup
from psoup.events.tenants import AlterTenant, CreateTenant, DropTenant
from psoup.events.webhooks import AddWebhook, AdvanceWebhook, DropWebhook, PauseWebhook, ResumeWebhook, RotateWebhook

StreamKey = tuple[str, str]
"""A tenant, and the name of its stream in lower case."""

COMMAND_BYTES = 1_000
"""Bytes of room that a command takes in addition to its tuples and its text."""
ROW_BYTES = 64
"""The approximate bytes of room for the parameters of one query."""


def size_of(command: Command) -> int:
    """The room that a command takes, in bytes."""
    match command:
        case Push():
            return COMMAND_BYTES + int(command.table.get_total_buffer_size())
        case RegisterMany():
            texts = sum(map(len, command.statements))
            if command.rows is not None:
                texts = command.count * (texts + ROW_BYTES)
            return COMMAND_BYTES + texts
        case Register():
            return COMMAND_BYTES + len(command.sql)
        case CreateStream():
            content = 0 if command.content is None else command.content.nbytes
            return COMMAND_BYTES + len(command.sql) + content
        case UnregisterMany() | AlterQueries():
            return COMMAND_BYTES + (0 if command.query_ids is None else command.query_ids.nbytes)
        case AlterStream() | DropStream() | Recall() | Locate() | Attach() | Heartbeat() | Unregister():
            return COMMAND_BYTES
        case ExpireRows():
            return COMMAND_BYTES + command.ids.nbytes
        case RaiseWatermarks() | CloseInstants() | ReleasePins():
            return COMMAND_BYTES
        case StopPump():
            return COMMAND_BYTES + len(command.why)
        case PushDerived():
            return COMMAND_BYTES + command.batch.nbytes
        case IssueToken() | RevokeToken() | CreateTenant() | AlterTenant() | DropTenant():
            return COMMAND_BYTES
        case FormGroup() | ConfirmGroup() | DropGroup() | PauseWebhook() | ResumeWebhook() | DropWebhook():
            return COMMAND_BYTES
        case RotateWebhook():
            return COMMAND_BYTES + len(command.secret)
        case AddWebhook():
            return COMMAND_BYTES + sum(map(len, (command.key, command.url, command.secret, command.token)))
        case AdvanceWebhook():
            return COMMAND_BYTES + command.nbytes
        case _:
            assert_never(command)


def grows(command: Command) -> bool:
    """Whether a full store refuses a command. It does not refuse drops and unregistrations, because they make room.

    It refuses heartbeats by the clock, because it refuses pushes, too. So it does with deletions of expired rows.
    """
    match command:
        case RaiseWatermarks() | ExpireRows() | AlterQueries() | PushDerived():
            return True
        case Push() | Register() | RegisterMany() | CreateStream() | Attach() | IssueToken() | CreateTenant():
            return True
        case FormGroup() | AddWebhook():
            return True
        case AdvanceWebhook():
            return command.delivery is not None
        case AlterStream() | DropStream() | Recall() | Locate() | Heartbeat() | Unregister() | UnregisterMany():
            return False
        case CloseInstants() | StopPump() | ReleasePins():
            return False
        case RevokeToken() | AlterTenant() | DropTenant() | ConfirmGroup() | DropGroup():
            return False
        case PauseWebhook() | ResumeWebhook() | RotateWebhook() | DropWebhook():
            return False
        case _:
            assert_never(command)


def registers(command: Command) -> bool:
    """Whether the quota `prepare_share` limits the time to prepare a command."""
    return isinstance(command, CreateStream | Register | RegisterMany)


def tenant_of(command: Command) -> str:
    """The tenant that is charged for a command; "" for commands of operators and of the service."""
    operators = IssueToken | RevokeToken | CreateTenant | AlterTenant | DropTenant
    return "" if isinstance(command, operators | RaiseWatermarks) else command.tenant


def stream_of(command: Command) -> StreamKey | None:
    """The stream whose commands must keep their order; None for a command that may overtake and be overtaken."""
    match command:
        case Push() | Recall() | Locate() | Heartbeat() | Attach():
            return command.tenant, command.stream.lower()
        case CreateStream() if command.content is not None:
            return command.tenant, command.content.spec.name.lower()
        case CreateStream() | AlterStream() | DropStream() | ExpireRows() | Register() | RegisterMany():
            return None
        case Unregister() | UnregisterMany() | AlterQueries() | IssueToken() | RevokeToken() | RaiseWatermarks():
            return None
        case CreateTenant() | AlterTenant() | DropTenant() | FormGroup() | ConfirmGroup() | DropGroup():
            return None
        case CloseInstants() | PushDerived() | StopPump() | ReleasePins():
            return None
        case AddWebhook() | AdvanceWebhook() | PauseWebhook() | ResumeWebhook() | RotateWebhook() | DropWebhook():
            return None
        case _:
            assert_never(command)
