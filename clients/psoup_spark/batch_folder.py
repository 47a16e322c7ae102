"""The folder of a standing job: a directory for each batch, on storage that workers, driver and services share.

    SHARED/join-<query>-000000007/             complete: chunks, matches, manifest; removed once all services have it
    SHARED/join-<query>-000000007.5f0e2a.new/  of an attempt that is running, or died
    SHARED/join-<query>-000000007.held/        rows that wait for the watermark, as Parquet, for the batch that follows
    SHARED/join-<query>.last                   the number of the last batch that all services had

A complete directory gets its final name by a rename. A job that repeats the batch attaches the same bytes to the
services that lack them.
"""

from __future__ import annotations

import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from psoup_client import InvalidData
from psoup_storage.formats.facts import MANIFEST

_HELD = ".held"
_WHOLE = "_SUCCESS"
"""The file that Spark writes last into a folder of Parquet files."""


@dataclass(frozen=True, slots=True)
class BatchFolder:
    """The directory of batch `number` of the query `query_id` in the folder `shared`."""

    shared: Path
    query_id: str
    number: int

    @property
    def name(self) -> str:
        """The name of the complete directory.

        It contains *join*, the former name of such jobs, so that jobs with older folders can continue.
        """
        return f"join-{self.query_id}-{self.number:09}"

    @property
    def path(self) -> Path:
        """The path of the complete directory."""
        return self.shared / self.name

    @property
    def whole(self) -> bool:
        """Whether an attempt has written the complete directory."""
        return (self.path / MANIFEST).exists()

    def begin(self) -> Path:
        """Make a directory for a new attempt, and remove the directories of attempts that died. Raises OSError."""
        for left in self.shared.glob(f"{self.name}.*.new"):
            shutil.rmtree(left, ignore_errors=True)
        new = self.shared / f"{self.name}.{secrets.token_hex(3)}.new"
        new.mkdir(mode=0o700)
        return new

    def publish(self, attempt: Path) -> None:
        """Rename the complete directory of an attempt to its final name.

        If another attempt was faster, its directory stays and this one is removed.
        """
        try:
            os.rename(attempt, self.path)
        except OSError:
            shutil.rmtree(attempt, ignore_errors=True)
            if not self.whole:
                raise

    def offer(self, folder: str) -> None:
        """Link the directory into the service's folder for jobs, unless that folder is the shared one."""
        link = Path(folder) / self.name
        if link.parent.resolve() == self.shared.resolve():
            return
        try:
            link.unlink(missing_ok=True)  # an earlier attempt may have made it
            link.symlink_to(self.path.resolve())
        except OSError as problem:
            raise InvalidData(
                f"{folder}, where the service looks for what is attached, cannot be reached from here"
                f" ({problem.strerror}); make it a link to {self.shared}"
            ) from problem

    def withdraw(self, folders: list[str]) -> None:
        """Remove the directory and its links, because all services have attached the batch."""
        for folder in folders:
            link = Path(folder) / self.name
            if link.is_symlink():
                link.unlink(missing_ok=True)
        shutil.rmtree(self.path, ignore_errors=True)

    @property
    def last(self) -> int:
        """The number of the last batch that all services have attached; -1 if there is none."""
        try:
            return int(self._last.read_text(encoding="ascii"))
        except FileNotFoundError:
            return -1

    def done(self) -> None:
        """Record that all services have attached the batch. Raises OSError."""
        new = self.shared / f"{self.name}.last.new"
        new.write_text(str(self.number), encoding="ascii")
        os.replace(new, self._last)

    @property
    def _last(self) -> Path:
        return self.shared / f"join-{self.query_id}.last"

    @property
    def held(self) -> Path:
        """The folder of the batch's rows that wait for the watermark."""
        return self.shared / (self.name + _HELD)

    def held_before(self) -> Path | None:
        """Find the newest folder with rows that an earlier batch left waiting, and remove older ones."""
        folders = [path for path in self.shared.glob(f"join-{self.query_id}-*{_HELD}") if (path / _WHOLE).exists()]
        earlier = sorted(path for path in folders if path.name < self.held.name)
        for path in earlier[:-1]:
            shutil.rmtree(path, ignore_errors=True)
        return earlier[-1] if earlier else None
