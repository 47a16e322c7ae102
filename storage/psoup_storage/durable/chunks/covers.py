"""The covers of the data directory: matches that jobs found in stored chunks for queries that came later.

    covers/51c2a7f0/
      manifest.json            which queries of this incarnation, over which chunks; see `psoup_storage.formats.covers`
      3-17.parquet.matches     goes with its chunk

One rename makes a whole cover part of the directory. A cover is not an event, and no answer depends on it. A cover that
is lost, damaged or of another incarnation is ignored, and the reader evaluates. Backups leave covers out.
"""

from __future__ import annotations

import os
import secrets
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from psoup.errors import InvalidInput
from psoup.values.columns import Array
from psoup_storage.formats.covers import Cover, read_cover, write_cover
from psoup_storage.formats.files import NO_ROOM, disk_full, sync_directory
from psoup_storage.formats.job_folder import JobFolder, bad_history
from psoup_storage.formats.matches import SUFFIX, are_known, are_ranges, read_index

FOLDER = "covers"
_NEW = ".new"
MOST_QUERIES = 65_536
"""The most queries of one job."""


class TakenCover(NamedTuple):
    """The numbers of chunks, and of tuples in them, for which a job directory gave new matches."""

    chunks: int
    rows: int


@dataclass(frozen=True, slots=True)
class StoredCover:
    """A stored cover. `path`: its folder. `ranges`: the IDs of its queries, int64[r, 2], [from, to)."""

    path: Path
    ranges: Array

    def beside(self, file: str) -> Path:
        """The file with the matches in the chunk of `file`."""
        return self.path / (file + SUFFIX)


class Covers:
    """The covers of a data directory, by the files of chunks. Any thread may read; changes take turns."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FOLDER
        self._of: dict[str, tuple[StoredCover, ...]] = {}
        self._lock = threading.Lock()

    def of(self, file: str) -> tuple[StoredCover, ...]:
        """The covers with matches in the chunk of that file, oldest first. O(1)."""
        return self._of.get(file, ())

    def load(self, incarnation: str, chunk_files: set[str]) -> None:
        """Load the covers of this incarnation over the files `chunk_files` at a start. Removes all other covers."""
        for path in sorted(self._path.iterdir()) if self._path.is_dir() else ():
            cover: Cover | None = None
            with suppress(InvalidInput):
                cover = None if path.name.endswith(_NEW) else read_cover(path)
            covered = (
                set(cover.files) & chunk_files if cover is not None and cover.incarnation == incarnation else set()
            )
            files = {file for file in covered if (path / (file + SUFFIX)).exists()}  # a job must cover the rest again
            if cover is None or not files:
                shutil.rmtree(path, ignore_errors=True)
                continue
            for file in set(cover.files) - files:
                (path / (file + SUFFIX)).unlink(missing_ok=True)
            self._add(StoredCover(path, cover.ranges), files)

    def take(
        self, directory: Path, incarnation: str, chunks: Mapping[str, tuple[int, int]], queries_end: int
    ) -> TakenCover:
        """Take over the matches of a job directory. O(chunks).

        `chunks`: the rows and the checksum of each stored file. The job's queries must have IDs below `queries_end`.
        The service trusts the matches of a job; computing them is the job's task. Raises InvalidInput, reason
        BAD_HISTORY, and ResourceExhausted without room; the directory is unchanged then.
        """
        cover = read_cover(directory)
        if cover.incarnation != incarnation:
            raise bad_history(directory, f"it is for incarnation {cover.incarnation}, and these data are {incarnation}")
        _check_queries(directory, cover.ranges, queries_end)
        with self._lock:
            wanted = dict.fromkeys(file for file in cover.files if file in chunks)
            files = [file for file in wanted if not self._has(file, cover.ranges)]
            if files:
                self._store(directory, Cover(incarnation, cover.ranges, tuple(files)), chunks)
        return TakenCover(len(files), sum(chunks[file][0] for file in files))

    def forget(self, files: Iterable[str]) -> None:
        """Remove the matches in chunks that are gone."""
        for file in files:
            with self._lock:
                for cover in self._of.pop(file, ()):
                    cover.beside(file).unlink(missing_ok=True)

    def prune(self, stands: Callable[[int], bool]) -> int:
        """Remove covers none of whose queries `stands` any more; returns how many. O(chunks + queries of covers)."""
        with self._lock:
            dead = [cover for cover in self._all() if not any(map(stands, _numbers(cover.ranges)))]
            gone = {cover.path for cover in dead}
            remaining = {file: tuple(c for c in covers if c.path not in gone) for file, covers in self._of.items()}
            self._of = {file: covers for file, covers in remaining.items() if covers}
        for cover in dead:
            shutil.rmtree(cover.path, ignore_errors=True)
        return len(dead)

    def _all(self) -> list[StoredCover]:
        return list({cover.path: cover for covers in self._of.values() for cover in covers}.values())

    def _has(self, file: str, ranges: Array) -> bool:
        return any(np.array_equal(cover.ranges, ranges) for cover in self.of(file))

    def _store(self, directory: Path, cover: Cover, chunks: Mapping[str, tuple[int, int]]) -> None:
        """Take over the files of a cover, then check them, because no other program can change them any more."""
        target = self._path / secrets.token_hex(4)
        new = target.with_name(target.name + _NEW)
        try:
            new.mkdir(mode=0o700, parents=True)
            with JobFolder(directory) as job:
                for file in cover.files:
                    _take(job, file, new, cover.ranges, chunks[file])
            write_cover(new, cover)
            os.rename(new, target)
            sync_directory(self._path)
            sync_directory(self._path.parent)
        except OSError as problem:
            shutil.rmtree(new, ignore_errors=True)
            if problem.errno not in NO_ROOM:
                raise
            raise disk_full(self._path, "the matches find no room") from problem
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        self._add(StoredCover(target, cover.ranges), cover.files)

    def _add(self, cover: StoredCover, files: Iterable[str]) -> None:
        """Swap one reference, so that a reader sees all of a cover or nothing. O(files)."""
        covers = dict(self._of)
        for file in files:
            covers[file] = (*covers.get(file, ()), cover)
        self._of = covers


def _take(job: JobFolder, file: str, folder: Path, ranges: Array, chunk: tuple[int, int]) -> None:
    name, (rows, crc) = file + SUFFIX, chunk
    present = job.has(name)
    if present:
        job.take(name, folder / name)
    if not present or not np.array_equal(read_index(folder / name, crc, rows).ranges, ranges):
        raise bad_history(job.path, f"{name} is missing, damaged, or of another chunk or other queries")


def _check_queries(directory: Path, ranges: Array, queries_end: int) -> None:
    """Raise InvalidInput unless the query IDs are ascending, few, and registered.

    A job cannot know the matches of queries that are registered later.
    """
    if not are_ranges(ranges) or not are_known(ranges, queries_end):
        raise bad_history(directory, "it is of queries that are not known")
    if int((ranges[:, 1] - ranges[:, 0]).sum()) > MOST_QUERIES:
        raise bad_history(directory, f"it is of more than {MOST_QUERIES:,} queries")


def _numbers(ranges: Array) -> Iterator[int]:
    return (number for first, end in ranges.tolist() for number in range(first, end))
