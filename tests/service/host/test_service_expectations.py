"""The place of an invocation: by the last one's cost and the window's growth since; never long on the loop."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from psoup.work.read_budget import ReadBudget, ReadEnded
from psoup_service.host.reads import expectations
from psoup_service.host.reads.expectations import Expectations, Unexpected
from psoup_service.host.reads.readers import LONG_S
from psoup_testing.services.wire import Wire, run


class _Processor:
    """Processor time that goes on only when it is told to, and no other passes."""

    def __init__(self) -> None:
        self.now = 0.0

    def thread_time(self) -> float:
        return self.now

    perf_counter = thread_time


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch) -> _Processor:
    processor = _Processor()
    monkeypatch.setattr(expectations, "time", processor)
    return processor


def _answer(processor: _Processor, seconds: float, window: int = 1_000, found: int = 10, examined: int = 0):  # type: ignore[no-untyped-def]
    def make(budget: ReadBudget) -> str:
        budget.window = window
        budget.check()
        budget.examine(examined)
        processor.now += seconds
        budget.found = found
        budget.check()
        return "answered"

    return make


def test_an_answer_is_made_on_the_loop_as_long_as_it_is_like_the_last_one(processor: _Processor) -> None:
    known = Expectations()
    assert not known.is_quick(7)
    assert not known.is_long(7)
    assert known.measured(7, _answer(processor, 0.000_05), ReadBudget()) == "answered"
    assert known.is_quick(7)
    assert known.on_loop(7, _answer(processor, 0.000_05)) == "answered"
    for grown in (
        _answer(processor, 0.0, window=20_000_000),
        _answer(processor, 0.0, found=1_000_000),
        _answer(processor, 0.0, examined=100_000),
        _answer(processor, 0.01),
    ):
        with pytest.raises(Unexpected):
            known.on_loop(7, grown)
        assert not known.is_quick(7), "the next one is not tried there"
        assert known.measured(7, _answer(processor, 0.000_05), ReadBudget()) == "answered"


def test_what_was_given_up_is_as_long_as_it_was(processor: _Processor) -> None:
    known = Expectations()

    def left(_: ReadBudget) -> str:
        processor.now += 0.001
        raise ReadEnded

    known.measured(7, _answer(processor, 2 * LONG_S), ReadBudget())
    for query_id in (7, 8):
        with pytest.raises(ReadEnded):
            known.measured(query_id, left, ReadBudget())
        assert known.is_long(query_id), "an impatient caller does not make it quick"


def test_a_window_that_has_grown_leaves_the_loop() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        query = await wire.register("SELECT x FROM s WHERE x >= 0 BEGIN (START)")
        done = await wire.push("s", pa.table({"x": range(10)}))
        await wire.invoke(query, min_sequence=done.sequence)
        used = list[str]()
        read = wire.service.host._readers.read

        async def noting(*args, **named):  # type: ignore[no-untyped-def]
            used.append(threading.current_thread().name)
            return await read(*args, **named)

        wire.service.host._readers.read = noting  # type: ignore[method-assign]
        for _ in range(100):  # the first ones of a process may take longer than is allowed on the loop
            used.clear()
            assert (await wire.invoke(query)).num_rows == 10
            if not used:
                break
        assert not used, "on the loop"
        done = await wire.push("s", pa.table({"x": range(60_000)}))
        assert (await wire.invoke(query, min_sequence=done.sequence, max_bytes=3 << 20)).num_rows == 60_010
        assert used, "on a reader thread"

    run(script)
