"""The directory of one run of a job. Each run has its own, so that runs of one name never meet in it.

    incoming/history-7f3a….lock            held by the run while it lives, by flock; says who
    incoming/history-7f3a…-c0ffee42/       the directory of that run; gone with it
    incoming/history-7f3a…-9b1deb4d/       of a run that died: removed by the next one

Files that a dead run's tasks still write are never used. On a file system without locks, runs of one name may overlap.
Then the first one that ends is attached, and the other one gets an error.
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
    """Return how the names of a job's directories begin: the same for the same names."""
    return f"{kind}-{hashlib.blake2b(' '.join(names).encode(), digest_size=8).hexdigest()}"


@contextmanager
def attempt(folder: str, job: str, kind: str) -> Iterator[Path]:
    """A new directory for a run of `job` (a `prefix`), removed at the end of the block. Leftovers of dead runs are
    removed first.

    Raises Conflict, reason JOB_RUNS, if such a job is running. `kind`: the word for the job in the message.
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
    """Remove what dead runs of a job have left, unless it is running."""
    with suppress(Conflict), _alone(Path(folder), job, ""):
        pass


@contextmanager
def _alone(place: Path, job: str, kind: str) -> Iterator[None]:
    """Exclude other runs of the job, where the file system has locks, and remove what dead runs have left."""
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
    """The lock, as an open file; None on a file system without locks."""
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
        os.close(handle)  # the run that held the lock has just removed it
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
    return handle
