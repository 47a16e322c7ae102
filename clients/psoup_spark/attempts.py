"""The directory of one run of a job. Each run has its own, so that runs with the same name never share files.

    incoming/history-7f3a….lock            the run holds it by flock while it lives; it names the process
    incoming/history-7f3a…-c0ffee42/       the directory of that run; the run removes it at its end
    incoming/history-7f3a…-9b1deb4d/       of a run that died: the next run removes it

If tasks of a dead run still write files, no job uses them. On a file system without locks, runs with one name may
overlap. Then the first one that ends is attached, and the other one gets an error.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from psoup_client import Conflict

_BUSY = {errno.EWOULDBLOCK, errno.EACCES}


def prefix(kind: str, *names: str) -> str:
    """Return the prefix of the names of a job's directories. It is a hash of `names`."""
    return f"{kind}-{hashlib.blake2b(' '.join(names).encode(), digest_size=8).hexdigest()}"


@contextmanager
def attempt(folder: str, job: str, kind: str) -> Iterator[Path]:
    """Make a directory for a run of `job` (a `prefix`), and remove it at the end of the block.

    Leftovers of dead runs are removed first. Raises Conflict, reason JOB_RUNS, if such a job is running. `kind`: the
    word for the job in the message.
    """
    place = Path(folder)
    with _alone(place, job, kind):
        directory = place / f"{job}-{secrets.token_hex(4)}"
        directory.mkdir(mode=0o700)
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def sweep(folder: str, job: str) -> None:
    """Remove the leftovers of a job's dead runs, unless the job is running."""
    with suppress(Conflict), _alone(Path(folder), job, ""):
        pass


@contextmanager
def _alone(place: Path, job: str, kind: str) -> Iterator[None]:
    """Exclude other runs of the job if the file system has locks, and remove the leftovers of dead runs."""
    lock = _take(place / f"{job}.lock", kind)
    if lock is None:
        yield
        return
    try:
        for left in place.glob(f"{job}-*"):
            shutil.rmtree(left, ignore_errors=True)
        yield
    finally:
        (place / f"{job}.lock").unlink(missing_ok=True)
        os.close(lock)


def _take(path: Path, kind: str) -> int | None:
    """Take the lock and return its open file. Returns None on a file system without locks."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):
                break
        except OSError as problem:
            if problem.errno not in _BUSY:
                os.close(handle)
                return None
            holder = os.pread(handle, 200, 0).decode("utf-8", "replace").strip() or "an unknown process"
            os.close(handle)
            raise Conflict(
                f"{kind} is being run already, by {holder}; wait for it, or end it", reason="JOB_RUNS"
            ) from None
        os.close(handle)  # the run that held the lock removed this file meanwhile: try again
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
    return handle
