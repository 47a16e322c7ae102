"""The audit log: changes and refusals with their callers, one line of JSON each, chained by hashes.

    {"time":"2026-…Z","call":"StreamService/DropStream","outcome":"OK",…,"before":"9f2c…"}
                                                            SHA-256 of the line before ─┘

It records changes of streams, queries, webhooks, tokens and tenants, jobs, backups, and every refused credential. It
has no reads, tuples, statements or secrets. A line that is changed or removed breaks the chain at the next line. An
operator who has noted a hash finds lines cut off at the end (`psoup audit verify --last`).

A service that cannot write a line goes on, and says so in its own log. After 200 refusals at once only one a second is
written, because any caller can cause them. Failed changes have a limit of the same size. The next line counts the
unwritten ones.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from psoup.model import time_text
from psoup_service.gate.principal import EVERYBODY, Principal
from psoup_storage.durable.directory import AUDIT

NAME = AUDIT
"""The name of the audit log in the data directory."""

FIRST = "0" * 64
"""The value of `before` in the very first line."""

CHANGES = frozenset(
    {
        "StreamService/CreateStream",
        "StreamService/AlterStream",
        "StreamService/DropStream",
        "StatementService/Execute",
        "QueryService/Register",
        "QueryService/RegisterMany",
        "QueryService/Unregister",
        "QueryService/UnregisterMany",
        "QueryService/AlterQueries",
        "GroupService/RemoveGroup",
        "WebhookService/AddWebhook",
        "WebhookService/RemoveWebhook",
        "WebhookService/PauseWebhook",
        "WebhookService/ResumeWebhook",
        "WebhookService/RotateWebhook",
        "WebhookService/TestWebhook",
        "AttachService/Attach",
        "CoverService/Cover",
        "BackupService/Backup",
        "AdminService/IssueToken",
        "AdminService/RevokeToken",
        "AdminService/CreateTenant",
        "AdminService/AlterTenant",
        "AdminService/DropTenant",
        "AdminService/AcceptClock",
        "AdminService/Promote",
    }
)
"""Calls that are recorded. Any other call is recorded only if its credential is refused."""

REFUSED = frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED"})
"""Outcomes that are recorded for every call."""

DONE = "OK"
"""The outcome of a successful change. The limit of lines never drops it."""

_NAME_OF_STREAM = r'(?P<name>"[^"\n]{1,200}"|\w{1,200})'
_OF_STREAM = re.compile(
    rf"\s*(CREATE|ALTER|DROP)\s+STREAM\s+(IF\s+(NOT\s+)?EXISTS\s+)?{_NAME_OF_STREAM}", re.IGNORECASE
)
_A_SECOND = 1.0
"""Refusals that are written in a second, and as many failures. So no caller can write more than 20 MB a day of each."""

_AT_ONCE = 200.0
"""Refusals, or failures, that are written at once before `_A_SECOND` limits them."""
_LOOK_US = 1_000_000
_TAIL = 64 * 1024
_SHOWN = 200
_log = logging.getLogger(__name__)


def hash_of(line: bytes) -> str:
    """The hash of a line without its line end. The next line contains the hash."""
    return hashlib.sha256(line).hexdigest()


class _Bucket:
    """A token bucket for lines of one kind. It holds `_AT_ONCE` lines, and gains `_A_SECOND` lines each second."""

    def __init__(self) -> None:
        self._left = _AT_ONCE
        self._counted = 0

    def allow(self, now: int) -> bool:
        """Whether one more line may be written at the clock's time `now`."""
        self._left = min(_AT_ONCE, self._left + max(0, now - self._counted) * _A_SECOND / 1_000_000)
        self._counted = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Audit:
    """The writer of the audit log, for one thread. Without a `path` it does nothing. A file that was moved away is
    replaced by a new one.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file = -1
        self._before = FIRST
        self._looked = -_LOOK_US
        self._refusals = _Bucket()
        self._failures = _Bucket()
        self._unwritten = 0
        self._failed = False

    def wants(self, call: str, outcome: str, principal: Principal) -> bool:
        """Whether a call is recorded. While callers need no credential, only the making of the first token is
        recorded.
        """
        if self._path is None:
            return False
        recorded = call in CHANGES or outcome in REFUSED
        return recorded and (principal is not EVERYBODY or call.startswith("AdminService/"))

    def note(self, now: int, call: str, outcome: str, principal: Principal, **facts: str) -> None:
        """Write a line about a call that has ended at the clock's time `now` (microseconds). Raises nothing."""
        bucket = self._refusals if outcome in REFUSED else self._failures
        if outcome != DONE and not bucket.allow(now):
            self._unwritten += 1
            return
        line: dict[str, Any] = {"time": time_text(now), "call": call, "outcome": outcome}
        line |= {"tenant": principal.tenant, "principal": principal.name, "token": principal.token_id}
        line |= {name: value[:_SHOWN] for name, value in facts.items() if value}
        if self._unwritten:
            line["unwritten"] = self._unwritten
        try:
            self._write(line, now)
            self._unwritten = 0
            self._failed = False
        except OSError as problem:
            if not self._failed:
                _log.error("the audit log cannot be written", extra={"file": str(self._path), "why": problem.strerror})
            self._failed = True

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _write(self, line: dict[str, Any], now: int) -> None:
        if abs(now - self._looked) >= _LOOK_US:
            self._looked = now
            self._open()
        raw = json.dumps({**line, "before": self._before}, separators=(",", ":")).encode()
        written = os.write(self._file, raw + b"\n")
        if written != len(raw) + 1:
            self._looked = -_LOOK_US
            raise OSError(28, "no space for a whole line")
        self._before = hash_of(raw)

    def _open(self) -> None:
        """Open the file unless it is open and still at its path. The chain continues in a new file."""
        assert self._path is not None, "without a path nothing is written"
        try:
            if self._file >= 0 and os.path.samestat(os.fstat(self._file), os.stat(self._path)):
                return
        except FileNotFoundError:  # it was moved away
            pass
        self.close()
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(self._path, flags, 0o600)
        size = os.fstat(self._file).st_size
        tail = os.pread(self._file, _TAIL, max(0, size - _TAIL))
        if tail and not tail.endswith(b"\n"):
            os.write(self._file, b"\n")  # ends the incomplete last line of a killed service
        lines = tail.splitlines()
        self._before = hash_of(lines[-1]) if lines else self._before


def tell_offline(directory: Path, call: str, about: str) -> None:
    """Record a change in the directory of a service that does not run. Raises nothing.

    A new file belongs to the directory's owner. If it belonged to root, the service could not write to it.
    """
    log, new = Audit(directory / NAME), not (directory / NAME).exists()
    who = f"data directory, user ID {os.getuid()}" if hasattr(os, "getuid") else "data directory"
    log.note(time.time_ns() // 1_000, call, DONE, EVERYBODY, peer=who, object=about)
    log.close()
    if new and hasattr(os, "chown"):
        with suppress(OSError):
            owner = directory.stat()
            os.chown(directory / NAME, owner.st_uid, owner.st_gid, follow_symlinks=False)


def object_of(request: Any) -> str:
    """The subject of a request: a name or an ID.

    Another statement becomes a fingerprint, because it may hold values.
    """
    for field in ("name", "token_id", "stream", "query_id", "webhook_id", "key", "job", "directory"):
        value = getattr(request, field, "")
        if isinstance(value, str) and value:
            return value
    statement = getattr(request, "statement", "")
    if isinstance(statement, str) and (named := _OF_STREAM.match(statement)) is not None:
        return named["name"].strip('"')
    return f"statement {hash_of(statement.encode())[:16]}" if isinstance(statement, str) and statement else ""
