"""Small pushes in one event: taken whole, it is what they are one after the other; else it is refused."""

import random

import numpy as np
import pyarrow as pa
import pytest

from psoup.admission import Admission
from psoup.admission.together import join, may_join, share
from psoup.config import EngineConfig
from psoup.errors import FailedPrecondition, InvalidBatch, ResourceExhausted
from psoup.events.commands import CreateStream, Heartbeat, Push
from psoup.events.events import Pushed
from psoup_testing.suite.sweeps import in_parts

NOW = 10_000_000
TEXT = "CREATE STREAM s (x BIGINT, t TEXT)"
TIMED = "CREATE STREAM s (at TIMESTAMP) TIMESTAMP BY at LATENESS 3 SECONDS"


def admitted(sql: str, **config: int) -> Admission:
    admission = Admission(EngineConfig(**config))
    admission.prepare(CreateStream(sql), NOW)
    return admission


def timed(*seconds: int) -> Push:
    times = pa.array([1_000_000 * second for second in seconds], pa.timestamp("us"))
    return Push("s", pa.record_batch({"at": times}))


def text(*rows: tuple[int, str | None]) -> Push:
    return Push("s", pa.record_batch({"x": [x for x, _ in rows], "t": pa.array([t for _, t in rows], pa.string())}))


def test_each_is_told_of_its_own_rows() -> None:
    pushes = [text((1, "a")), text((2, None), (3, "ccc")), text((4, ""))]
    done = admitted(TEXT).prepare(join(pushes), NOW)
    assert isinstance(done.event, Pushed)
    assert [column.to_list() for column in done.event.batch.columns] == [[1, 2, 3, 4], ["a", None, "ccc", ""]]
    answers = share(done.acknowledgement, pushes)
    assert [answer.accepted for answer in answers] == [1, 2, 1]
    assert {(a.sequence, a.watermark, a.late, a.ahead, a.duplicate) for a in answers} == {(2, NOW, 0, 0, False)}


@in_parts(4)
def test_in_event_time_it_is_what_they_are_one_after_the_other(part: slice) -> None:
    outcomes = set()
    for seed in range(300)[part]:
        draw = random.Random(seed)
        base, one, all_, last, pushes = draw.randrange(4), admitted(TIMED), admitted(TIMED), 0, list[Push]()
        heartbeat = Heartbeat("s", 1_000_000 * draw.choice((0, 2)))
        for admission in (one, all_):
            admission.prepare(heartbeat, NOW)
        for _ in range(draw.randrange(2, 6)):
            last = max(0, last + draw.randrange(-2, 3))
            pushes.append(timed(*(base + last + draw.randrange(2) for _ in range(draw.randrange(1, 4)))))
        singly = [one.prepare(push, NOW) for push in pushes]
        refused = sum(done.acknowledgement.late + done.acknowledgement.ahead for done in singly)
        before = all_.state()
        try:
            done = all_.prepare(join(pushes), NOW)
        except FailedPrecondition as problem:
            assert problem.reason == "NOT_WHOLE"
            assert all_.state() == before
            outcomes.add("refused" if refused else "not sure")
            continue
        assert not refused
        times = [event.batch.times for event in (each.event for each in singly) if isinstance(event, Pushed)]
        assert isinstance(done.event, Pushed)
        assert done.event.batch.times.tolist() == np.concatenate(times).tolist()
        assert done.event.watermark == singly[-1].acknowledgement.watermark
        outcomes.add("taken")
    assert {"taken", "refused"} <= outcomes


def test_times_that_only_rise_are_always_taken() -> None:
    sql = TIMED.partition(" LATENESS")[0]
    done = admitted(sql).prepare(join([timed(1), timed(2, 2), timed(5)]), NOW)
    assert done.acknowledgement.watermark == 5_000_000
    with pytest.raises(FailedPrecondition):
        admitted(sql).prepare(join([timed(2), timed(1)]), NOW)


def test_a_row_too_far_ahead_is_not_taken_whole() -> None:
    with pytest.raises(FailedPrecondition):
        admitted(TIMED).prepare(join([timed(1), timed(10**9)]), NOW)


def test_what_one_cannot_be_read_of_is_not_joined() -> None:
    bad = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff")])
    with pytest.raises(InvalidBatch, match="joined"):
        join([text((1, "a")), Push("s", pa.record_batch({"x": [1], "t": bad}))])


def test_over_the_memory_nothing_is_taken() -> None:
    admission = admitted(TEXT, memory_bytes=100)
    before = admission.state()
    with pytest.raises(ResourceExhausted):
        admission.prepare(join([text((1, "a" * 40)), text((2, "b" * 40))]), NOW)
    assert admission.state() == before


def test_only_small_plain_pushes_to_one_stream_are_joined() -> None:
    push = text((1, "a"))
    assert may_join(push, text((2, "b"), (3, "c")))
    others = [
        Push("t", push.table),
        Push("s", push.table, "producer", 0, 0),
        Push("s", push.table, number=1),
        Push("s", push.table, epoch=1),
        Push("s", push.table, tenant="other"),
        Push("s", pa.table(push.table)),
        Push("s", push.table.select(["x"])),
        Push("s", push.table.rename_columns(["x", "u"])),
        Push("s", push.table.slice(0, 0)),
        text(*((n, "") for n in range(65))),
        Heartbeat("s", 1),
    ]
    for other in others:
        assert not may_join(push, other)
        assert not may_join(other, push)
