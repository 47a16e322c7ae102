"""Services in processes that can be killed and started again in tenths of a second.

    test ──"start {DIR, PORT, …}"──> zygote (has imported and compiled everything) ──fork──> psoup_service.main.serve
         <──"ready ADDRESS PID"────────────────────────────────────────────────────────────────────┘
         ──"kill"────────────> kill -9
         <──"dead STATUS"───── whenever it has ended, whatever ended it
         ──"rest"────────────> kill -9, if it runs; then the zygote waits for the next test of this process

The service is the real one, settings and all; only its start-up is shared. gRPC does not run in the zygote, so that it
may fork. PSOUP_TEST_CHUNK_ROWS makes its chunks small, PSOUP_TEST_MEMORY_MIB limits what it may allocate,
PSOUP_TEST_FILES how many files and connections it may have open, and with PSOUP_TEST_DEADLY=13 the process is killed
when abs(13) is evaluated, as by the out-of-memory killer; with PSOUP_TEST_DEADLY_COPY="writer 7" at a step of its work
with a copy. Run as a module it is the zygote; `Zygote` is the test's
side.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import signal
import subprocess
import sys
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any

from psoup_testing.kernel_cases.unlisted_types import refuse_unlisted
from psoup_testing.services.ports import KeptPort

_PREFIX = "PSOUP_"
_RESTING: defaultdict[bool, list[subprocess.Popen[str]]] = defaultdict(list)
"""Zygotes that no test uses now, by whether they have few arenas: one takes two seconds of a processor to make."""


class Zygote:
    """Starts one service at a time; whatever still runs is killed at the end of the `with` block."""

    def __init__(self, **environ: str) -> None:
        given = {name: value for name, value in os.environ.items() if name.startswith(_PREFIX)}
        self._environ = {**given, **environ}
        self.pid = 0
        """The service's process, once it is ready."""
        self._port = KeptPort()
        self._few_arenas = "PSOUP_TEST_MEMORY_MIB" in environ
        self._process = _RESTING[self._few_arenas].pop() if _RESTING[self._few_arenas] else _made(self._few_arenas)

    def __enter__(self) -> Zygote:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self._say("rest")
        while self._hear() != "resting":
            pass
        _RESTING[self._few_arenas].append(self._process)
        self._port.close()

    def start(self, data_dir: str, port: int = 0, quarantine: str = "") -> None:
        """Begin to start a service; `ready` waits for it, `kill` does not. All have one port unless one is given."""
        wanted = {"port": port or self._port.number, "data_dir": data_dir, "quarantine": quarantine.split()}
        wanted["environ"] = self._environ
        self._say(f"start {json.dumps(wanted)}")

    def died(self) -> int:
        """Wait until the service has ended by itself; returns the exit status, as `os.waitpid` has it."""
        while not (line := self._hear()).startswith("dead"):
            assert line.startswith("ready"), line
        return int(line.split()[1])

    def ready(self) -> str:
        """The address of the service that was started, once it serves; AssertionError if it ended instead."""
        line = self._hear()
        assert line.startswith("ready "), f"the service did not start: {line}"
        _, address, pid = line.split()
        self.pid = int(pid)
        return address

    def ready_or_dead(self) -> str:
        """The address of the service that was started; "" if kill -9 ended it instead."""
        line = self._hear()
        if line == f"dead {int(signal.SIGKILL)}":
            return ""
        assert line.startswith("ready "), f"the service did not start: {line}"
        return line.split()[1]

    def kill(self) -> int:
        """Kill -9, and wait until it is gone; returns the exit status, as `os.waitpid` has it."""
        self._say("kill")
        return self.died()

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        self._say("stop")
        return os.waitstatus_to_exitcode(self.died())

    def _say(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text + "\n")

    def _hear(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the zygote has ended"
        return line.strip()


def _made(few_arenas: bool) -> subprocess.Popen[str]:
    """A new zygote. Of limited address space the C library must not reserve 64 MiB a thread."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    if few_arenas:
        environ["MALLOC_ARENA_MAX"] = "2"
    return subprocess.Popen(
        [sys.executable, "-m", "psoup_testing.services.zygote"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        env=environ,
    )


@atexit.register
def _end_resting() -> None:
    for process in (process for resting in _RESTING.values() for process in resting):
        process.communicate(timeout=60)


def _tell(text: str) -> None:
    os.write(1, (text + "\n").encode())


def _limit(mib: int) -> None:
    """No more address space than now, and so much."""
    with open("/proc/self/statm", encoding="ascii") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + mib * 1024 * 1024,) * 2)


def _serve(port: int, data_dir: str, quarantine: list[str], environ: dict[str, str]) -> None:
    """The forked child: a service until it is killed or told to stop."""
    for name in [name for name in os.environ if name.startswith(_PREFIX)]:
        del os.environ[name]
    os.environ.update(environ)
    from psoup_service.main import serve
    from psoup_service.process.settings import Settings
    from psoup_service.process.settings_sources import load

    rows = int(os.environ.get("PSOUP_TEST_CHUNK_ROWS", "0"))
    if rows:  # not a setting: only tests want small chunks
        made = Settings.engine_config
        Settings.engine_config = lambda self: replace(made(self), chunk_rows=rows)  # type: ignore[method-assign]
    if deadly := os.environ.get("PSOUP_TEST_DEADLY"):
        from psoup_testing.crash.deadly import make_deadly

        make_deadly(int(deadly))
    if step := os.environ.get("PSOUP_TEST_DEADLY_COPY"):
        from psoup_testing.crash.deadly_copy import make_deadly_copy

        role, _, number = step.partition(" ")
        make_deadly_copy(role, int(number))
    if mib := os.environ.get("PSOUP_TEST_MEMORY_MIB"):
        _limit(int(mib))
    if files := os.environ.get("PSOUP_TEST_FILES"):
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(files), int(files)))
    flags = {"port": port, "data_dir": data_dir, "log_format": "json", "log_level": "info"}
    os._exit(
        serve(
            load(flags).settings, ready=lambda address: _tell(f"ready {address} {os.getpid()}"), quarantine=quarantine
        )
    )


class _Nursery:
    """The service that runs, if there is one. Its end is told when it comes."""

    def __init__(self) -> None:
        self.child = 0
        signal.signal(signal.SIGCHLD, self._ended)

    def start(self, wanted: dict[str, Any]) -> None:
        """Fork it; if it ends at once, that waits until it is known."""
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        self.child = os.fork()
        if not self.child:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        if not self.child:
            _serve(**wanted)

    def end(self) -> None:
        """Kill it with signal 9, without notice, and wait until it is gone."""
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        child, self.child = self.child, 0
        if child:
            with suppress(ProcessLookupError, ChildProcessError):  # it has ended by itself
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it has not ended."""
        if self.child:
            os.kill(self.child, number)

    def _ended(self, number: int, frame: object) -> None:
        ended, status = os.waitpid(self.child, os.WNOHANG) if self.child else (0, 0)
        if ended:
            self.child = 0
            _tell(f"dead {status}")


def main() -> None:
    """The zygote."""
    import psoup_service.main  # noqa: F401 - what takes long is done before the first fork
    from psoup_service.process.warmup import warm_up

    refuse_unlisted()
    warm_up()
    nursery = _Nursery()
    for line in sys.stdin:
        command, _, wanted = line.strip().partition(" ")
        if command == "start":
            nursery.start(json.loads(wanted))
        elif command in ("kill", "stop"):
            nursery.send(signal.SIGKILL if command == "kill" else signal.SIGTERM)
        elif command == "rest":
            nursery.end()
            _tell("resting")
    nursery.end()


if __name__ == "__main__":
    main()
