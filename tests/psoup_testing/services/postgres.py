"""A server of PostgreSQL for tests: a directory of its own in memory, reached by a Unix socket, which can be killed.

    with Postgres() as server:
        server.run("CREATE TABLE t (id int PRIMARY KEY)")
        server.kill()                      kill -9 of all of its processes
        server.start()

Root starts it as the user postgres. `missing()` says why there is none.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

_INSTALLED = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
_SETTINGS = {
    "listen_addresses": "",
    "wal_level": "logical",
    "fsync": "off",
    "max_connections": "20",
    "max_wal_senders": "6",
    "max_replication_slots": "6",
    "shared_buffers": "16MB",
    "dynamic_shared_memory_type": "mmap",  # in the directory, so that nothing stays behind a kill
    "autovacuum": "off",
}


def missing() -> str:
    """The reason why no server can be started; empty if one can."""
    if find_spec("psycopg2") is None:
        return "psycopg2 is not installed (the extra psoup[postgres])"
    return "" if _INSTALLED or shutil.which("postgres") else "PostgreSQL is not installed (Debian's postgresql)"


def _program(name: str) -> str:
    return str(_INSTALLED[-1] / name) if _INSTALLED else name


class Postgres:
    """A server. `address`: where clients connect."""

    def __init__(self, **settings: str) -> None:
        self._settings = {**_SETTINGS, **settings}
        self._user = "postgres" if os.geteuid() == 0 else None
        self.folder = Path(tempfile.mkdtemp(prefix="psoup-pg-"))
        if self._user:
            shutil.chown(self.folder, self._user)
        self.address = f"postgresql://postgres@/postgres?host={self.folder}"
        self._connection: Any = None
        data = self.folder / "data"
        command = [_program("initdb"), "-D", str(data), "-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8"]
        subprocess.run(command, check=True, user=self._user, stdout=subprocess.DEVNULL, cwd=self.folder)
        self.start()

    def __enter__(self) -> Postgres:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        """Start the server, and wait until it takes connections."""
        settings = {**self._settings, "unix_socket_directories": str(self.folder)}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [_program("pg_ctl"), "-D", str(self.folder / "data"), "-w", "-s", "-l", str(self.folder / "log")]
        quoted = " ".join(f"'{part}'" for part in options)
        subprocess.run([*command, "-o", quoted, "start"], check=True, user=self._user, cwd=self.folder)

    def kill(self) -> None:
        """Kill -9 of the server and of its processes."""
        self._close()
        while processes := self._processes():
            for process in processes:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            for process in processes:
                _wait_until_gone(process)
        for lock in ("data/postmaster.pid", ".s.PGSQL.5432.lock"):  # a dead process may still have its number
            (self.folder / lock).unlink(missing_ok=True)

    def _processes(self) -> list[int]:
        """The processes of the server, which all work in its directory."""
        data, processes = str(self.folder / "data"), list[int]()
        for path in Path("/proc").glob("[0-9]*/cwd"):
            with suppress(OSError):
                if os.readlink(path) == data:
                    processes.append(int(path.parent.name))
        return processes

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Carry out statements in one transaction. Returns the rows of the last one."""
        import psycopg2

        if self._connection is None:
            self._connection = psycopg2.connect(self.address)
        with self._connection, self._connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    def slots(self) -> list[str]:
        """The names of all slots."""
        return [name for (name,) in self.run("SELECT slot_name FROM pg_replication_slots ORDER BY 1")]

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _wait_until_gone(process: int) -> None:
    """Wait for the end of a killed process that is not a child."""
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(process)
        select.select([descriptor], [], [], 10)
        os.close(descriptor)
