"""The place of a copy: a directory, or object storage. Each object is created once, whole or not at all.

    create     writes an object only if its name is free (object storage: `If-None-Match: *`; a directory: a hard link)
    add_file   writes a file whose name is the checksum of its content; a second writer writes the same bytes

Object storage is reached by obstore, a binding of Rust's `object_store`: it repeats requests that fail, with pauses,
and takes credentials and the address from the environment (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, …).
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from psoup.errors import Internal, InvalidInput, Unavailable
from psoup_storage.formats.files import sync_directory, sync_file

SCHEMES = ("s3", "gs", "az")
"""The schemes of URLs of object storage."""
RETRIES = 3
"""The most repetitions of one request to object storage."""
MOST_BYTES = 640 * 1024 * 1024
"""The most bytes of an object that is read into memory. A segment has one large event, or some small ones."""
RETRY_S = 10
"""Seconds after which a request that fails is not repeated any more."""
_NEW = ".new-"
_NO_BUCKET = "NoSuchBucket"
"""The code by which S3 says that there is no such bucket; the reply to HEAD has none."""
_NO_TLS = "builder error"
"""The words of the package obstore for a request to an http:// address without the setting ALLOW_HTTP."""
_MOST_TEXT = 400
"""The most characters of an error of the storage that a message quotes."""


class Target(Protocol):
    """The objects of one copy. Any thread. Raises Unavailable, reason COPY_UNREACHABLE, if the storage fails."""

    place: str
    """The directory or the URL, for messages."""

    def create(self, name: str, content: bytes) -> bool:
        """Write an object; returns False, and changes nothing, if there is one of that name."""
        ...

    def add_file(self, name: str, path: Path) -> None:
        """Write an object of the content of a file, unless there is one of that name."""
        ...

    def has(self, name: str) -> bool:
        """Whether there is an object of that name."""
        ...

    def read(self, name: str) -> bytes | None:
        """The content of an object; None if there is none. Raises Internal, reason COPY_DAMAGED, above `MOST_BYTES`."""
        ...

    def pieces(self, name: str) -> Iterator[bytes]:
        """The content of an object, in pieces. Raises FileNotFoundError if there is none."""
        ...

    def names_after(self, name: str) -> Iterator[str]:
        """The names in the folder of `name` that are greater than it, in order."""
        ...

    def times_after(self, name: str) -> Iterator[tuple[str, int]]:
        """The objects in the folder of `name` with greater names, and when each was written; see `time_of`."""
        ...

    def time_of(self, name: str) -> int | None:
        """When an object was written, by the clock of the storage, in microseconds; None if there is none."""
        ...

    def delete(self, names: Sequence[str]) -> None:
        """Remove objects. Names without an object are passed over."""
        ...


def open_target(place: str) -> Target:
    """The target at a directory, or at a URL such as s3://bucket/prefix. No request is made.

    Raises InvalidInput for another URL, and if the package obstore is missing.
    """
    scheme, separator, _ = place.partition("://")
    if not separator:
        return DirectoryTarget(place)
    if scheme not in SCHEMES:
        allowed = ", ".join(f"{name}://" for name in SCHEMES)
        raise InvalidInput(f"{place}: a copy is in a directory, or in object storage at {allowed}", reason="COPY_PLACE")
    try:
        return StorageTarget(place)
    except ModuleNotFoundError as problem:
        raise InvalidInput(
            f"{place} needs the package obstore, which is not installed: pip install 'psoup[server,replicate]'",
            reason="EXTRA",
        ) from problem


class DirectoryTarget:
    """A copy in a directory, which is made if it is missing. Its file system must have hard links."""

    def __init__(self, place: str | Path) -> None:
        self.place = str(place)
        self._path = Path(place)

    def create(self, name: str, content: bytes) -> bool:
        """See `Target`. The object is on the disk when this returns."""
        path = self._path / name
        with self._errors(), self._new(path) as new:
            new.write_bytes(content)
            sync_file(new)
            try:
                os.link(new, path)
            except FileExistsError:
                return False
        return True

    def add_file(self, name: str, path: Path) -> None:
        """See `Target`. The object is on the disk when this returns."""
        if self.has(name):
            return
        with self._errors(), self._new(self._path / name) as new:
            shutil.copyfile(path, new)
            sync_file(new)
            new.rename(self._path / name)

    def has(self, name: str) -> bool:
        """See `Target`."""
        with self._errors():
            return (self._path / name).exists()

    def read(self, name: str) -> bytes | None:
        """See `Target`."""
        with self._errors():
            try:
                with self._open(name) as file:
                    _check_size(self.place, name, os.fstat(file.fileno()).st_size)
                    return file.read(MOST_BYTES)
            except FileNotFoundError:
                return None

    def pieces(self, name: str) -> Iterator[bytes]:
        """See `Target`."""
        with self._errors(), self._open(name) as file:
            while piece := file.read(1024 * 1024):
                yield piece

    def names_after(self, name: str) -> Iterator[str]:
        """See `Target`. O(names in the folder)."""
        folder, _, last = name.rpartition("/")
        with self._errors():
            path = self._path / folder
            files = [each.name for each in path.iterdir()] if path.is_dir() else []
        yield from (f"{folder}/{file}" for file in sorted(files) if file > last)

    def times_after(self, name: str) -> Iterator[tuple[str, int]]:
        """See `Target`."""
        for later in self.names_after(name):
            if (written := self.time_of(later)) is not None:
                yield later, written

    def time_of(self, name: str) -> int | None:
        """See `Target`."""
        with self._errors():
            try:
                return (self._path / name).stat().st_mtime_ns // 1_000
            except FileNotFoundError:
                return None

    def delete(self, names: Sequence[str]) -> None:
        """See `Target`."""
        with self._errors():
            for name in names:
                (self._path / name).unlink(missing_ok=True)

    def _open(self, name: str) -> BinaryIO:
        """An object. Only a plain file is one: a pipe would block, and a device never end."""
        try:
            handle = os.open(self._path / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as problem:
            if problem.errno in (errno.ELOOP, errno.ENXIO):  # a link, or a socket
                raise unusable(self.place, name, "it is not a plain file") from problem
            raise
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise unusable(self.place, name, "it is not a plain file")
        return open(handle, "rb")

    @contextmanager
    def _new(self, path: Path) -> Iterator[Path]:
        """A name for a new file beside `path`; it is removed at the end. The names in the folder are durable then."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = path.with_name(f"{_NEW}{secrets.token_hex(8)}")
        try:
            yield new
        finally:
            new.unlink(missing_ok=True)
            sync_directory(path.parent)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as problem:
            raise unreachable(self.place, problem.strerror or str(problem)) from problem


class StorageTarget:
    """A copy in object storage. Raises ModuleNotFoundError without the package obstore.

    Requests raise InvalidInput if the bucket does not exist.
    """

    def __init__(self, place: str) -> None:
        import obstore
        from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
        from obstore.store import from_url

        self.place = place
        self._calls: Any = obstore
        self._taken, self._failed = AlreadyExistsError, BaseError
        self._denied = PermissionDeniedError, UnauthenticatedError
        try:
            retries: Any = {"max_retries": RETRIES, "retry_timeout": timedelta(seconds=RETRY_S)}
            self._store: Any = from_url(place, retry_config=retries)
        except (BaseError, ValueError) as problem:
            raise InvalidInput(f"{place} cannot be used: {problem}", reason="COPY_PLACE") from problem

    def create(self, name: str, content: bytes) -> bool:
        """See `Target`."""
        try:
            self._call(self._calls.put, name, content, mode="create")
        except self._taken as problem:
            if not self.has(name):  # 409: another write of that name is under way, which may fail
                raise unreachable(f"{self.place}/{name}", _line(problem)) from problem
            return False
        return True

    def add_file(self, name: str, path: Path) -> None:
        """See `Target`. A large file is sent in parts."""
        if not self.has(name):
            self._call(self._calls.put, name, path)

    def has(self, name: str) -> bool:
        """See `Target`."""
        try:
            self._call(self._calls.head, name)
        except FileNotFoundError:
            return False
        return True

    def read(self, name: str) -> bytes | None:
        """See `Target`."""
        try:
            result = self._call(self._calls.get, name)
            _check_size(self.place, name, result.meta["size"])
            return bytes(self._call(lambda *_: result.bytes(), name))
        except FileNotFoundError:
            return None

    def pieces(self, name: str) -> Iterator[bytes]:
        """See `Target`."""
        stream = iter(self._call(self._calls.get, name).stream())
        while (piece := self._call(lambda store, _: next(stream, None), name)) is not None:
            yield bytes(piece)

    def names_after(self, name: str) -> Iterator[str]:
        """See `Target`."""
        return (later for later, _ in self.times_after(name))

    def times_after(self, name: str) -> Iterator[tuple[str, int]]:
        """See `Target`. To the second."""
        folder = name.rpartition("/")[0]
        pages = self._call(lambda store, path: iter(self._calls.list(store, folder, offset=path)), name)
        while page := self._call(lambda *_: next(pages, None), name):
            yield from sorted((each["path"], _written(each)) for each in page)

    def time_of(self, name: str) -> int | None:
        """See `Target`. To the second."""
        try:
            return _written(self._call(self._calls.head, name))
        except FileNotFoundError:
            return None

    def delete(self, names: Sequence[str]) -> None:
        """See `Target`. Many objects in one request, where the storage has such requests."""
        if names:
            try:
                self._call(lambda store, _: self._calls.delete(store, list(names)), names[0])
            except FileNotFoundError:  # which some storage says of the first one that is missing
                for name in names:
                    with suppress(FileNotFoundError):
                        self._call(self._calls.delete, name)

    def _call(self, request: Callable[..., Any], name: str, *values: Any, **options: Any) -> Any:
        try:
            return request(self._store, name, *values, **options)
        except (self._failed, OSError) as problem:
            if _NO_BUCKET in str(problem):
                raise InvalidInput(f"{self.place}: the bucket does not exist", reason="COPY_PLACE") from problem
            if isinstance(problem, FileNotFoundError) or (isinstance(problem, self._taken) and "mode" in options):
                raise
            why = _line(problem)
            if isinstance(problem, self._denied) or "ExpiredToken" in why:
                why = (
                    "access is denied: the credentials have ended, or lack a permission. A service reads those in its"
                    f" environment at its start ({why})"
                )
            elif _NO_TLS in why:
                why = f"for an address without TLS set AWS_ALLOW_HTTP=true ({why})"
            raise unreachable(f"{self.place}/{name}", why) from problem


def unreachable(place: str, why: str) -> Unavailable:
    """The error for storage that fails."""
    return Unavailable(f"the copy at {place} cannot be reached: {why}", reason="COPY_UNREACHABLE")


def unusable(place: str, name: str, why: str) -> Internal:
    """The error for an object that cannot be used."""
    return Internal(
        f"{place}/{name} is damaged: {why}; psoup replica verify {place} examines the whole copy",
        reason="COPY_DAMAGED",
    )


def _line(problem: Exception) -> str:
    """The first line of an error. The storage decides how long it is."""
    return str(problem).partition("\n")[0][:_MOST_TEXT]


def _written(facts: Any) -> int:
    """The time in the facts of an object, in microseconds."""
    return round(facts["last_modified"].timestamp() * 1_000_000)


def _check_size(place: str, name: str, size: int) -> None:
    if size > MOST_BYTES:
        raise unusable(place, name, f"it has {size:,} bytes, and {MOST_BYTES:,} are the most")
