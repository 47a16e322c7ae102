"""A PostgreSQL server of our own: a new data directory, a free port on loopback, ended and removed with the benchmark.

It is started as the caller, or, because the server refuses root, as `postgres` or `nobody` when the caller is root.
Nothing of a PostgreSQL that the machine may run is touched. Answers come over ADBC as Arrow, which is COPY in binary:
of the ways into Python the fastest.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.peers import Missing

START_SECONDS = 30
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "shared_buffers": "2GB",
    "work_mem": "256MB",
    "max_parallel_workers_per_gather": "2",
    "jit": "off",
}
EAGER = {"min_parallel_table_scan_size": "0", "parallel_setup_cost": "10"}
"""Both cores for small tables too: pays where a join takes long, and costs 10 ms where a scan is short."""


class PostgresServer:
    """A running server and one connection to it; `close`, or the end of the process, ends both and removes the data.

    `driver`: a module of the DB-API; the default is ADBC's. Only ADBC has `table` and `load`.
    """

    def __init__(self, settings: dict[str, str] | None = None, driver: Any = None) -> None:
        self._settings = SETTINGS | (settings or {})
        driver = driver or _adbc()
        programs = _programs()
        self._user = _user()
        self._folder = Path(tempfile.mkdtemp(prefix="psoup-bench-postgres-"))
        if self._user:
            os.chown(self._folder, pwd.getpwnam(self._user).pw_uid, -1)
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self._stop)  # a benchmark that fails closes nothing, and the server would live on
        try:
            self._start(*programs)
            self.connection = self._connected(driver)
        except BaseException:
            self._stop()
            raise

    @property
    def address(self) -> str:
        """The URI of its database."""
        return f"postgresql://bench@127.0.0.1:{self._port}/postgres"

    def close(self) -> None:
        """End the server and remove its data."""
        self.connection.close()
        self._stop()
        atexit.unregister(self._stop)

    def run(self, text: str) -> None:
        """A statement without an answer."""
        with self.connection.cursor() as cursor:
            cursor.execute(text)
        self.connection.commit()

    def table(self, text: str) -> Any:
        """An answer, as a `pyarrow.Table`."""
        with self.connection.cursor() as cursor:
            cursor.execute(text)
            return cursor.fetch_arrow_table()

    def load(self, name: str, table: Any) -> None:
        """A new table with the rows of an Arrow table, vacuumed and analysed; a table of that name is replaced."""
        with self.connection.cursor() as cursor:
            cursor.adbc_ingest(name, table, mode="replace")
        self.connection.commit()
        self.connection.adbc_connection.set_autocommit(True)  # VACUUM wants no transaction around it
        with self.connection.cursor() as cursor:
            cursor.execute(f"VACUUM ANALYZE {name}")
        self.connection.adbc_connection.set_autocommit(False)

    def _start(self, initdb: str, postgres: str) -> None:
        data = str(self._folder / "data")
        common: dict[str, Any] = {"cwd": self._folder, "user": self._user, "stdin": subprocess.DEVNULL}
        common["extra_groups"] = [] if self._user else None
        command = [initdb, "-D", data, "-A", "trust", "-U", "bench", "--no-sync", "-E", "UTF8", "--locale=C"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, **common)
        if done.returncode:
            raise Missing("PostgreSQL", f"initdb: {done.stderr.strip()[-200:]}")
        self._port = _free_port()
        command = [postgres, "-D", data, "-p", str(self._port)]
        command += [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, **common
        )

    def _connected(self, dbapi: Any) -> Any:
        assert self._process is not None
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                return dbapi.connect(self.address)
            except dbapi.Error as error:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise Missing("PostgreSQL", f"postgres did not start: {error}") from error
                time.sleep(0.05)

    def _stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # SIGTERM would wait for connections
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        shutil.rmtree(self._folder, ignore_errors=True)


def _adbc() -> Any:
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError as error:
        raise Missing("PostgreSQL", "make bench-setup, for adbc-driver-postgresql") from error
    return dbapi


def _programs() -> tuple[str, str]:
    places = [os.environ.get("PATH", ""), *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True))]
    programs = [shutil.which(name, path=os.pathsep.join(places)) for name in ("initdb", "postgres")]
    if programs[0] is None or programs[1] is None:
        raise Missing("PostgreSQL", "no postgres on PATH: install the package postgresql")
    return programs[0], programs[1]


def _user() -> str | None:
    """Whom the server runs as: None is the caller."""
    if os.geteuid():
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise Missing("PostgreSQL", "postgres refuses to run as root, and there is no user postgres or nobody")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
