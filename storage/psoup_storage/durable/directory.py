"""The data directory: one folder of one service, private, and locked while it is in use.

    psoup-data/            0700
      lock                 held with flock by the one service that runs on it; the process ID is in it
      psoup.db             0600, the database: catalog, log, manifest
      psoup.db-wal         its write-ahead log
      chunks/              stored chunks, as Parquet
      incoming/            job directories that wait to be attached; made when the first job begins
      covers/              matches that jobs found in stored chunks; see `covers`
      folds/               folds of stored chunks, ready to be read again; see `sidecars`
      audit.jsonl          changes and refusals, with their callers, once there are access tokens; the service writes it
      cache/               compiled kernels, where there is no other place for them
      diverged/            rows and events that a copy lacks, of the time before the directory became a standby's
      note-evaluating      {"stream": 3, …}: a small text that one process leaves for the next (`Notes`)
      note-folding         {"query": 7, …}: the fold under way; another thread writes this note

The lock ends with the process, however that ends. This module does not know the content of the database. Notes survive
the process; most of them need not survive a power cut. The service writes these in place, without a sync, in some
microseconds. After a power cut such a note may be missing or outdated. A note is a whole line; an incomplete line
counts as no note.
"""

from __future__ import annotations

import fcntl
import logging
import os
import pwd
import stat
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from psoup.errors import InvalidInput
from psoup.model import DEFAULT_TENANT
from psoup_proto import file_names
from psoup_storage.formats.files import sync_directory
from psoup_storage.formats.job_folder import is_plain

PREFIX = "note-"
_log = logging.getLogger(__name__)


class Notes:
    """The notes of a data directory. One thread at a time for each name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: dict[str, int] = {}
        self._refused = False

    def read(self, name: str) -> str:
        """The note of that name; empty if there is none."""
        try:
            content = (self._path / f"{PREFIX}{name}").read_bytes()
        except OSError:
            return ""
        line, end, _ = content.partition(b"\n")
        return line.decode("utf-8", "replace") if end else ""

    def write(self, name: str, text: str, *, sync: bool = False) -> None:
        """Replace the note by `text`, one line; an empty text removes it. Raises nothing if the disk refuses the note.

        `sync`: the note also survives a power cut.
        """
        try:
            file = self._files.get(name)
            if file is None:
                if not text and not (self._path / f"{PREFIX}{name}").exists():
                    return
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                file = self._files[name] = os.open(self._path / f"{PREFIX}{name}", flags, 0o600)
                _give_to_owner(file, self._path)
            if text:
                os.pwrite(file, f"{text}\n".encode(), 0)
            else:
                os.ftruncate(file, 0)
            if sync:
                os.fsync(file)
                sync_directory(self._path)
        except OSError as problem:
            if not self._refused:
                _log.warning("a note beside the data cannot be written", extra={"why": problem.strerror})
            self._refused = True

    def close(self) -> None:
        """Close the files, and remove the empty ones; idempotent."""
        while self._files:
            name, file = self._files.popitem()
            os.close(file)
            if not self.read(name):
                with suppress(OSError):
                    (self._path / f"{PREFIX}{name}").unlink()


DATABASE = file_names.DATABASE
LOCK = "lock"
AUDIT = "audit.jsonl"
"""The audit log, which the service's gate writes."""
CHUNKS = file_names.CHUNKS
INCOMING = "incoming"
CACHE = "cache"
"""The folder of compiled kernels, if neither the installation nor HOME can have them."""
DIVERGED = "diverged"
"""The folder of what a copy lacks; `psoup_storage.replica.tail_files` writes it."""
LOOK_AT_A_COPY = "look at a copy: psoup backup makes one while it runs"
_OF_OTHERS = {INCOMING, "lost+found"}
"""Names of a data directory that may belong to other users, because jobs write under their own users."""
_NEW = {LOCK, CHUNKS, "lost+found", CACHE}
"""Names that a directory may have before its database, from an interrupted first start or at a file system's root."""


class DataDirectory:
    """A private, locked directory, created if it is missing.

    Raises InvalidInput that names the directory: reason DATA_DIR_IN_USE if another service holds it, DATA_DIR if it
    cannot be made, entered or written, or holds other things. `to_look`: the directory is examined, not served, and the
    errors advise accordingly.
    """

    def __init__(self, path: Path | str, *, to_look: bool = False, beside: Collection[str] = ()) -> None:
        """`beside`: names that it may have without a database."""
        self.path = Path(path)
        self._to_look = to_look
        self._lock = -1
        try:
            self._refuse_foreign(beside)
            _make_private(self.path)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._lock = os.open(self.path / LOCK, flags, 0o600)
            _give_to_owner(self._lock, self.path)
            self._take_lock()
        except OSError as problem:
            self.close()
            why = (
                "it is not a directory"
                if isinstance(problem, FileExistsError | NotADirectoryError)
                else problem.strerror
            )
            way = (
                "it takes its owner to look into it"
                if to_look
                else "choose another --data-dir, or --memory to keep nothing"
            )
            raise InvalidInput(
                f"the data directory {self.path} cannot be used: {why}; {way}",
                reason="DATA_DIR",
                data_dir=str(self.path),
            ) from problem

    @property
    def database(self) -> Path:
        """The database's file, which need not exist yet."""
        return self.path / DATABASE

    def make_file(self, path: Path) -> None:
        """Create `path`, readable by its owner only, before anything is written to it; its name is durable."""
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        sync_directory(path.parent)

    def incoming(self, tenant: str) -> Path:
        """The folder for jobs of a tenant, without links; created if it is missing.

        Raises InvalidInput for a tenant whose name is not a valid folder name; a foreign log may have such a name.
        """
        if not is_plain(tenant):
            raise InvalidInput(f"{tenant[:64]!r} is not the name of a tenant's folder in {INCOMING}", reason="DATA_DIR")
        folder = self.path / INCOMING
        folder.mkdir(mode=0o700, exist_ok=True)
        if tenant != DEFAULT_TENANT:
            folder = folder / tenant
            folder.mkdir(mode=0o700, exist_ok=True)
        return folder.resolve()

    def free_bytes(self) -> int:
        """The free bytes of the directory's file system."""
        facts = os.statvfs(self.path)
        return facts.f_bavail * facts.f_frsize

    def close(self) -> None:
        """Unlock the directory; idempotent."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _refuse_foreign(self, beside: Collection[str]) -> None:
        """Raise InvalidInput for a directory of other files, before `_make_private` changes its mode."""
        names = {entry.name for entry in self.path.iterdir()} if self.path.is_dir() else set()
        foreign = sorted(names - _NEW - {*beside})
        if foreign and DATABASE not in names:
            raise InvalidInput(
                f"the directory {self.path} has other files, for instance {foreign[0]!r}; choose an empty one, or"
                " one that is not there yet, as --data-dir",
                reason="DATA_DIR",
                data_dir=str(self.path),
            )

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            holder = os.pread(self._lock, 32, 0).decode("ascii", "replace").strip() or "unknown"
            self.close()
            way = LOOK_AT_A_COPY if self._to_look else "choose another --data-dir"
            raise InvalidInput(
                f"the data directory {self.path} is in use by another service (process {holder});"
                f" stop that one, or {way}",
                reason="DATA_DIR_IN_USE",
                data_dir=str(self.path),
                process=holder,
            ) from problem
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)


def refuse_other_owner(path: Path | str) -> None:
    """Raise InvalidInput, reason DATA_DIR, if a data directory belongs to another user.

    Its owner could replace each file while the service runs, even a service of root. O(entries). A missing directory
    will belong to the user that creates it. Files of root are accepted, because root can write to all files.
    """
    path, me = Path(path), os.geteuid()
    if not path.is_dir():
        return
    if (owner := path.stat().st_uid) != me:
        raise _belongs_to(path, path, owner, me)
    for entry in path.iterdir():
        if entry.name not in _OF_OTHERS and (owner := entry.lstat().st_uid) not in (0, me):
            raise _belongs_to(path, entry, owner, me)


def _belongs_to(directory: Path, entry: Path, owner: int, me: int) -> InvalidInput:
    user = (
        f"the data directory {directory}" if entry == directory else f"{entry.name} in the data directory {directory}"
    )
    return InvalidInput(
        f"{user} belongs to {_user(owner)}, and this process runs as {_user(me)}: start it as that user,"
        f" give it the directory (chown -R {me} {directory}), or name one that is not there yet, such as"
        f" {directory / 'psoup-data'}",
        reason="DATA_DIR",
        data_dir=str(directory),
        owner=owner,
    )


def _user(number: int) -> str:
    """The name and number of a user; the number alone if the system has no name."""
    try:
        return f"user {pwd.getpwuid(number).pw_name} ({number})"
    except KeyError:
        return f"user {number}"


def _give_to_owner(file: int, directory: Path) -> None:
    """Give a file to the owner of its directory, so that the owner's service can write to it, even if root made it."""
    owner = directory.stat()
    if os.geteuid() == 0 != owner.st_uid and os.fstat(file).st_uid == 0:
        os.fchown(file, owner.st_uid, owner.st_gid)


def in_use(path: Path, way: str = "choose another --data-dir") -> InvalidInput:
    """The error for a directory whose database another process has open, although its lock is free."""
    return InvalidInput(
        f"the data directory {path} is in use: another process has its database open (a running service whose file"
        f" {LOCK!r} was removed, or a tool of SQLite); stop that process, or {way}",
        reason="DATA_DIR_IN_USE",
        data_dir=str(path),
    )


def stored_in(path: Path) -> str:
    """The path of a chunk within a data directory; empty if there is no chunk."""
    return min((f"{CHUNKS}/{file.name}" for file in (path / CHUNKS).glob("*.parquet*")), default="")


def used(path: Path) -> str:
    """A file that shows that a directory is in use; empty if there is none. Files of a first start that ended before
    its first commit do not count.
    """
    entries = [entry for entry in path.iterdir() if entry.name.startswith(PREFIX) or entry.name == AUDIT]
    return stored_in(path) or min((entry.name for entry in entries if entry.stat().st_size), default="")


def _make_private(path: Path) -> None:
    if not path.is_dir():
        path.mkdir(mode=0o700, parents=True)
        sync_directory(path.parent)
    if stat.S_IMODE(path.stat().st_mode) != 0o700:
        path.chmod(0o700)
