"""A process that kills itself at a step of its work with a copy in a directory.

Each call of one of the functions has two steps: before it does anything, and after it has done everything. A new file
of the copy is synced inside of two of them, before it gets its name.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import Any

from psoup_service.chores import standby
from psoup_storage.durable.directory import Notes
from psoup_storage.durable.log import log
from psoup_storage.durable.store import DurableStore
from psoup_storage.durable.tools import backup
from psoup_storage.replica import event_queue, restore, standby_directory, targets, uploader

WRITER = "writer"
STANDBY = "standby"
_STEPS: dict[str, list[tuple[Any, str]]] = {
    WRITER: [
        (targets.DirectoryTarget, "create"),
        (targets.DirectoryTarget, "add_file"),
        (targets, "sync_file"),
        (DurableStore, "freeze"),
        (backup.Frozen, "close"),
    ],
    STANDBY: [
        (targets.DirectoryTarget, "read"),
        (restore, "_receive"),
        (restore._Application, "apply"),
        (log, "write"),
        (standby_directory, "mark_standby"),
        (Notes, "write"),
        (DurableStore, "append"),
    ],
}


def make_deadly_copy(role: str, step: int) -> None:
    """Let this process die at the step of that number, from 0 on, of a writer or a standby. It does not wait long."""
    count, lock = iter(range(step + 1)), Lock()

    def take_step() -> None:
        with lock:
            if next(count) == step:
                os.kill(os.getpid(), signal.SIGKILL)

    for place, name in _STEPS[role]:
        setattr(place, name, _counted(getattr(place, name), take_step))
    event_queue.SEGMENT_S = 0.01
    uploader.LOOK_S = standby.EVERY_S = 0.01


def _counted(function: Callable[..., Any], take_step: Callable[[], None]) -> Callable[..., Any]:
    @wraps(function)
    def counted(*values: Any, **options: Any) -> Any:
        take_step()
        result = function(*values, **options)
        take_step()
        return result

    return counted
