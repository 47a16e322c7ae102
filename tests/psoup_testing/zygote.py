"""Services in processes that can be killed and started again in tenths of a second.

    test ──"start DIR PORT"──> zygote (has imported and compiled everything) ──fork──> psoup_service.main.serve
         <──"ready ADDRESS"──────────────────────────────────────────────────────────────────┘
         ──"kill"────────────> kill -9, wait until it is gone ──> "dead STATUS"

The service is the real one, settings and all; only its start-up is shared. gRPC does not run in the zygote, so that it
may fork. PSOUP_TEST_CHUNK_ROWS makes its chunks small, PSOUP_TEST_MEMORY_MIB limits what it may allocate, and with
PSOUP_TEST_DEADLY=13 the process is killed when abs(13) is evaluated, as by the out-of-memory killer. Run as a module it
is the zygote; `Zygote` is the test's side.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from dataclasses import replace
from types import TracebackType


class Zygote:
    """Starts one service at a time; whatever still runs is killed at the end of the `with` block."""

    def __init__(self, **environ: str) -> None:
        paths = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "psoup_testing.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={**os.environ, **paths, **environ},
        )

    def __enter__(self) -> Zygote:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self._say("end")
        self._process.wait(30)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def start(self, data_dir: str, port: int = 0, quarantine: str = "") -> None:
        """Begin to start a service; `ready` waits for it, `kill` does not."""
        self._say(f"start {port} {data_dir}\t{quarantine}")

    def died(self) -> int:
        """Wait until the service has ended by itself; returns the exit status, as `os.waitpid` has it."""
        self._say("wait")
        while not (line := self._hear()).startswith("dead"):
            assert line.startswith("ready"), line
        return int(line.split()[1])

    def ready(self) -> str:
        """The address of the service that was started, once it serves; AssertionError if it ended instead."""
        word, _, address = self._hear().partition(" ")
        assert word == "ready", address
        return address

    def kill(self) -> int:
        """Kill -9, and wait until it is gone; returns the exit status, as `os.waitpid` has it."""
        self._say("kill")
        while not (line := self._hear()).startswith("dead"):
            assert line.startswith("ready"), line
        return int(line.split()[1])

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        self._say("stop")
        while not (line := self._hear()).startswith("dead"):
            assert line.startswith("ready"), line
        return os.waitstatus_to_exitcode(int(line.split()[1]))

    def _say(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text + "\n")

    def _hear(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the zygote has ended"
        return line.strip()


def _tell(text: str) -> None:
    os.write(1, (text + "\n").encode())


def _limit(mib: int) -> None:
    """No more address space than now, and so much."""
    with open("/proc/self/statm", encoding="ascii") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + mib * 1024 * 1024,) * 2)


def _serve(port: int, data_dir: str, quarantine: str) -> None:
    """The forked child: a service until it is killed or told to stop."""
    from psoup_service.main import serve
    from psoup_service.settings import Settings, load

    rows = int(os.environ.get("PSOUP_TEST_CHUNK_ROWS", "0"))
    if rows:  # no setting: nobody but a test wants small chunks
        made = Settings.engine_config
        Settings.engine_config = lambda self: replace(made(self), chunk_rows=rows)  # type: ignore[method-assign]
    if deadly := os.environ.get("PSOUP_TEST_DEADLY"):
        from psoup_testing.deadly import make_deadly

        make_deadly(int(deadly))
    if mib := os.environ.get("PSOUP_TEST_MEMORY_MIB"):
        _limit(int(mib))
    flags = {"port": port, "data_dir": data_dir, "log_format": "json", "log_level": "warning"}
    ids = quarantine.split()
    os._exit(serve(load(flags).settings, ready=lambda address: _tell(f"ready {address}"), quarantine=ids))


def _end(child: int, number: signal.Signals) -> None:
    os.kill(child, number)
    _tell(f"dead {os.waitpid(child, 0)[1]}")


def main() -> None:
    """The zygote."""
    import psoup_service.main  # noqa: F401 - what takes long is done before the first fork
    from psoup_service.warmup import warm_up

    warm_up()
    child = 0
    for line in sys.stdin:
        command, *rest = line.split(maxsplit=2)
        if command == "start":
            child = os.fork()
            if not child:
                data_dir, _, quarantine = rest[1].rstrip("\n").partition("\t")
                _serve(int(rest[0]), data_dir, quarantine)
        elif command == "wait":
            _tell(f"dead {os.waitpid(child, 0)[1]}")
            child = 0
        elif command in ("kill", "stop"):
            _end(child, signal.SIGKILL if command == "kill" else signal.SIGTERM)
            child = 0
        elif command == "end":
            break
    if child:
        _end(child, signal.SIGKILL)


if __name__ == "__main__":
    main()
