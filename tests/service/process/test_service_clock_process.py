"""The clocks of this machine in a process of its own, whose wall clock is set: it needs a C compiler."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "fixtures" / "clock_shim.c"

PROCESS = """
import json, sys
from psoup_service.process.clock import GuardedClock, boot_time, wall_time
clock = GuardedClock()
for line in sys.stdin:
    accepted = clock.accept() if line.strip() == "accept" else None
    before, now, state = boot_time(), clock.now(), clock.state()
    print(json.dumps([before, now, wall_time(), state.steps, accepted]), flush=True)
"""

linux_with_gcc = pytest.mark.skipif(
    shutil.which("gcc") is None or sys.platform != "linux",
    reason="gcc is not there to compile tests/fixtures/clock_shim.c",
)


@linux_with_gcc
def test_a_process_does_not_follow_its_wall_clock_until_it_is_accepted(tmp_path: Path) -> None:
    library, file = tmp_path / "clock_shim.so", tmp_path / "seconds"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True)
    file.write_bytes(bytes(4096))
    environment = {**os.environ, "LD_PRELOAD": str(library), "CLOCK_SHIM_FILE": str(file)}
    with (
        subprocess.Popen(
            [sys.executable, "-c", PROCESS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        ) as process,
        file.open("r+b") as setting,
    ):
        assert process.stdin is not None

        def asked(seconds: int, word: str = "look") -> tuple[int, int, int, bool | None]:
            """Set the wall clock, and ask: seconds of service time and of wall time since boot, steps, accepted."""
            assert process.stdin is not None
            assert process.stdout is not None
            setting.seek(0)
            setting.write(struct.pack("=q", seconds))
            setting.flush()
            process.stdin.write(f"{word}\n")
            process.stdin.flush()
            boot, now, wall, steps, accepted = json.loads(process.stdout.readline())
            return (now - boot) // 1_000_000, (wall - boot) // 1_000_000, steps, accepted

        boot = asked(0)[0]

        def since_boot(seconds: int, word: str = "look") -> tuple[int, int, int, bool | None]:
            now, wall, steps, accepted = asked(seconds, word)
            return round((now - boot) / 10) * 10, round((wall - boot) / 10) * 10, steps, accepted

        assert since_boot(0) == (0, 0, 0, None)
        assert since_boot(50) == (50, 50, 0, None)
        assert since_boot(0) == (0, 0, 0, None)
        assert since_boot(7_200) == (0, 7_200, 1, None)
        assert since_boot(0) == (0, 0, 1, None)
        assert since_boot(7_200) == (0, 7_200, 2, None)
        assert since_boot(7_200, "accept") == (7_200, 7_200, 2, True)
        assert since_boot(7_200, "accept") == (7_200, 7_200, 2, False)
        process.stdin.close()
