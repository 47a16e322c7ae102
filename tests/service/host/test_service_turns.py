"""Turns of the interpreter are short while another thread waits for it, and as they were before; what computes at
length goes behind.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading

import pytest

from psoup.work.runner import Runner, serial
from psoup_service.host.maintainer import Maintainer
from psoup_service.host.precautions import Guard
from psoup_service.host.turns.evaluation_turns import EvaluationTurns
from psoup_service.host.turns.interpreter import BEHIND, SHORT_SECONDS, ShortTurns
from psoup_service.wire.decoders import QUICK_BYTES, Decoders
from psoup_storage.memory import MemoryStore


def test_turns_are_short_until_the_last_one_has_ended() -> None:
    usual = sys.getswitchinterval()
    with ShortTurns():
        with ShortTurns():
            assert sys.getswitchinterval() == pytest.approx(SHORT_SECONDS)
        assert sys.getswitchinterval() == pytest.approx(SHORT_SECONDS)
    assert sys.getswitchinterval() == pytest.approx(usual)


def test_what_raises_gives_its_turn_back() -> None:
    usual = sys.getswitchinterval()
    with pytest.raises(ZeroDivisionError), ShortTurns():
        _ = 1 / 0
    assert sys.getswitchinterval() == pytest.approx(usual)


def test_turns_that_were_shorter_stay_so() -> None:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(SHORT_SECONDS / 2)
    try:
        with ShortTurns():
            assert sys.getswitchinterval() <= SHORT_SECONDS / 2
    finally:
        sys.setswitchinterval(usual)


def _niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only processes have a priority")
def test_what_computes_at_length_goes_behind_the_other_threads() -> None:
    class Task:
        name = "seal"

        def compute(self, run: Runner = serial) -> int:
            return _niceness()

    before, found, posted = _niceness(), list[int](), threading.Event()

    def post(result: int) -> None:
        found.append(result)
        posted.set()

    maintainer = Maintainer(post, pytest.fail, Guard(MemoryStore()), EvaluationTurns(lambda *_: None))
    maintainer.put(Task())
    maintainer.start()
    assert posted.wait(60)
    maintainer.stop(finish=False)
    maintainer.join()

    async def decode() -> list[int]:
        return [await decoders.run("a", size, _niceness) for size in (QUICK_BYTES, QUICK_BYTES + 1)]

    decoders = Decoders()
    found += asyncio.run(decode())
    decoders.close()
    assert found == [before + BEHIND, before, before + BEHIND]
    assert _niceness() == before
