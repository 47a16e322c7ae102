"""A service that may take a gigabyte is attacked in every way that the benchmarks know, and started again after each:
what an attack left on the log must not end the next start (T22, T23).
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.attacks.attacks import ATTACKS, repeat
from benchmarks.tool.processes import resident
from psoup_client import Client
from psoup_testing.http2.hostile_connections import ONCE, Victim
from psoup_testing.services.zygote import Zygote
from psoup_testing.suite.budget import ALL_PLACES, SCALE

FEW = ("amplified_block", "zeros_that_fit", "churn")
"""Attacks of `make test-long`: each is there in a moment. `make soak` has all."""

SECONDS = 0.2 if SCALE < ALL_PLACES else 5.0
MEMORY_MIB, LIMIT_MIB = 256, 1_024


@pytest.mark.long
def test_a_service_of_a_gigabyte_survives_each_attack_and_a_restart(tmp_path: Path) -> None:
    environ = {"PSOUP_TEST_MEMORY_MIB": str(LIMIT_MIB), "PSOUP_MEMORY_MIB": str(MEMORY_MIB)}
    with Zygote(**environ) as zygote:
        for name in ATTACKS if SCALE >= ALL_PLACES else FEW:
            folder = str(tmp_path / name)
            zygote.start(folder)
            address = zygote.ready()
            said = attacked(name, address)
            assert sum(said.values()), name
            assert resident(zygote.pid) < LIMIT_MIB * 1024 * 1024
            with Victim(address) as neighbour:
                assert neighbour.served(1), (name, said)
            zygote.kill()
            zygote.start(folder)
            with Victim(zygote.ready()) as neighbour:
                assert neighbour.served(1), name
            assert zygote.stop() == 0, name


def attacked(name: str, address: str) -> Counter[str]:
    """Let the attack go on for its time; returns how its calls ended."""
    attack, stop, said = ATTACKS[name], threading.Event(), Counter[str]()
    with Client(address, timeout=60, options=ONCE) as client:
        make = attack.prepare(client)
        steps = [make() for _ in range(attack.threads)]
        threads = [threading.Thread(target=repeat, args=(step, stop, said), daemon=True) for step in steps]
        for thread in threads:
            thread.start()
        ends = time.monotonic() + SECONDS
        while time.monotonic() < ends or not sum(said.values()):
            stop.wait(0.05)
        stop.set()
        for thread in threads:
            thread.join()
    return said
