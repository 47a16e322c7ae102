"""Batches of a producer that share a push: one event if none is refused, and the same outcomes as one by one."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pytest

from psoup.admission import Admission
from psoup.admission.rows.idempotency_keys import key_name
from psoup.admission.together import prepare_shared
from psoup.config import EngineConfig
from psoup.errors import Conflict, FailedPrecondition, InvalidBatch, PSoupError, ResourceExhausted
from psoup.events.acknowledgements import Prepared, ProducerAcknowledgement, PushAcknowledgement, SharedAcknowledgement
from psoup.events.commands import Command, CreateStream, Locate, Push, SharedBatch
from psoup.events.events import Event, Pushed
from psoup_testing.suite.sweeps import in_parts

NOW = 10_000_000
PLAIN = "CREATE STREAM s (x BIGINT NOT NULL)"
TIMED = "CREATE STREAM s (at TIMESTAMP) TIMESTAMP BY at LATENESS 2 SECONDS"


def admitted(sql: str, config: EngineConfig = EngineConfig()) -> Admission:
    admission = Admission(config)
    admission.prepare(CreateStream(sql), NOW)
    return admission


def shared(number: int, *tables: pa.RecordBatch, **fields: object) -> Push:
    """A push of several batches, numbered from `number` on. Batches of the same rows have the same digest."""
    digests = [repr(table.to_pydict()).encode() for table in tables]
    batches = tuple(SharedBatch(*pair) for pair in zip(digests, map(len, tables), strict=True))
    push = Push("s", pa.Table.from_batches(tables), "p", 1, number, digests[0], shared=batches, whole=True)
    return replace(push, **fields)  # type: ignore[arg-type]


def alone(push: Push) -> list[Push]:
    """The batches of a shared push, each as a push."""
    starts = accumulate((batch.rows for batch in push.shared), initial=0)
    return [
        replace(
            push,
            table=push.table.slice(start, batch.rows),
            number=push.number + place,
            digest=batch.digest,
            shared=(),
            whole=False,
        )
        for place, (start, batch) in enumerate(zip(starts, push.shared, strict=False))
    ]


def numbers(*values: int | None) -> pa.RecordBatch:
    return pa.record_batch({"x": pa.array(values, pa.int64())})


def times(*seconds: int) -> pa.RecordBatch:
    return pa.record_batch({"at": pa.array([1_000_000 * second for second in seconds], pa.timestamp("us"))})


def preparing(admission: Admission, events: list[Event]) -> Callable[[Command], Prepared]:
    """Prepare commands, and collect their events."""

    def prepare(command: Command) -> Prepared:
        prepared = admission.prepare(command, NOW)
        events.extend(prepared.events)
        return prepared

    return prepare


def send(admission: Admission, push: Push) -> tuple[SharedAcknowledgement, list[Event]]:
    """Prepare a shared push. Returns the answer, and the events that are to be logged."""
    adopted = list[Event]()
    prepared = prepare_shared(push, preparing(admission, adopted))
    assert [*prepared.events] == adopted, "an adopted event is not logged, or a logged one is not adopted"
    admission.check()
    assert isinstance(prepared.acknowledgement, SharedAcknowledgement)
    return prepared.acknowledgement, adopted


def position(admission: Admission) -> tuple[int, int | None]:
    """The next number of the producer, and its rows so far."""
    answer = admission.prepare(Locate("s", "p"), NOW).acknowledgement
    assert isinstance(answer, ProducerAcknowledgement)
    return answer.number, answer.rows


def rows_of(events: Sequence[Event]) -> list[object]:
    return [row for event in events if isinstance(event, Pushed) for row in event.batch.columns[0].to_list()]


def test_batches_that_share_a_push_are_one_event_with_a_reply_each() -> None:
    admission = admitted(PLAIN)
    answer, events = send(admission, shared(0, numbers(1), numbers(), numbers(2, 3)))
    (event,) = events
    assert isinstance(event, Pushed)
    assert rows_of(events) == [1, 2, 3] and [batch.rows for batch in event.batches] == [1, 0, 2]
    assert [(each.sequence, each.accepted, each.first_row) for each in answer.batches] == [
        (2, 1, 0),
        (2, 0, 1),
        (2, 2, 1),
    ]
    assert answer.refusal is None and position(admission) == (3, 3)


@pytest.mark.seeded("the reply to a repeat names the first rows of its event, which are of another batch")
def test_a_repeat_of_one_of_them_has_its_first_reply() -> None:
    admission = admitted(PLAIN)
    push = shared(0, numbers(1), numbers(2, 3), numbers(4))
    first, _ = send(admission, push)
    for place, batch in enumerate(alone(push)):
        answer = admission.prepare(batch, NOW).acknowledgement
        assert answer == replace(first.batches[place], duplicate=True)
    with pytest.raises(Conflict):
        admission.prepare(replace(alone(push)[1], digest=b"other rows"), NOW)


@pytest.mark.seeded("a merged batch whose second number is refused while its first is taken")
def test_the_batches_before_a_refused_one_are_taken_once() -> None:
    admission = admitted(PLAIN)
    push = shared(0, numbers(1), numbers(2), numbers(3, None), numbers(4))
    answer, events = send(admission, push)
    assert [each.accepted for each in answer.batches] == [1, 1]
    assert isinstance(answer.refusal, InvalidBatch) and answer.refusal.facts["row"] == "1"
    assert rows_of(events) == [1, 2] and position(admission) == (2, 2)
    answer, events = send(admission, shared(0, numbers(1), numbers(2), numbers(3), numbers(4)))
    assert [each.duplicate for each in answer.batches] == [True, True, False, False]
    assert rows_of(events) == [3, 4] and position(admission) == (4, 4)


def test_the_error_of_the_first_batch_is_raised() -> None:
    admission = admitted(PLAIN)
    before = admission.state()
    with pytest.raises(InvalidBatch):
        send(admission, shared(0, numbers(None), numbers(1)))
    with pytest.raises(FailedPrecondition, match="leaves a gap"):
        send(admission, shared(1, numbers(1), numbers(2)))
    assert admission.state() == before


def test_batches_of_a_table_and_of_a_key_have_an_event_each() -> None:
    table = admitted("CREATE TABLE s (x BIGINT PRIMARY KEY)")
    answer, events = send(table, shared(0, numbers(1, 2), numbers(2)))
    assert len(events) == 2 and [each.accepted for each in answer.batches] == [2, 1]
    answer, events = send(admitted(PLAIN), shared(0, numbers(1), numbers(2), producer=key_name("k"), epoch=0))
    assert len(events) == 1 and answer.refusal is not None


def test_batches_that_lack_memory_together_are_taken_as_far_as_they_fit() -> None:
    limited = EngineConfig(memory_bytes=4_000, kept_acknowledgements=1)
    push = shared(0, *(numbers(*range(100)) for _ in range(4)))
    answer, events = send(admitted(PLAIN, limited), push)
    assert isinstance(answer.refusal, ResourceExhausted)
    assert 0 < len(events) == len(answer.batches) < 4


@in_parts(4)
@pytest.mark.seeded("a row is taken that is late after an earlier batch of its message")
def test_in_event_time_the_outcomes_are_those_of_one_by_one(part: slice) -> None:
    kinds = set()
    for seed in range(400)[part]:
        draw = random.Random(seed)
        by_each, all_, last, number = admitted(TIMED), admitted(TIMED), 2, 0
        for _ in range(draw.randrange(1, 4)):
            tables = list[pa.RecordBatch]()
            for _ in range(draw.randrange(2, 5)):
                last = max(0, last + draw.randrange(-1, 3))
                spread = draw.choice((1, 4))
                tables.append(times(*(last + draw.randrange(spread) for _ in range(draw.randrange(4)))))
            push = shared(number, *tables)
            singly = [by_each.prepare(batch, NOW) for batch in alone(push)]
            answer, events = send(all_, push)
            kinds.add(len(events))
            assert answer.refusal is None
            pairs = zip(answer.batches, [each.acknowledgement for each in singly], strict=True)
            for together, separate in pairs:
                assert isinstance(separate, PushAcknowledgement)
                counts = [(each.accepted, each.late, each.ahead) for each in (together, separate)]
                assert counts[0] == counts[1]
            pushed = [event.batch.times for each in singly for event in each.events if isinstance(event, Pushed)]
            taken = [event.batch.times for event in events if isinstance(event, Pushed)]
            assert np.concatenate(taken).tolist() == np.concatenate(pushed).tolist()
            assert position(all_) == position(by_each)
            number += len(tables)
        assert all_.prepare(shared(number, times(60)), NOW).acknowledgement == replace(
            by_each.prepare(shared(number, times(60)), NOW).acknowledgement, sequence=all_.sequence
        )
    assert {1} < kinds, "none was taken together, or none was not"


@in_parts(4)
@pytest.mark.seeded("an event applied twice")
def test_any_messages_take_each_number_once(part: slice) -> None:
    """Messages begin before the next number, at it, or behind it. Some have a bad batch."""
    outcomes = set[object]()
    for seed in range(300)[part]:
        draw = random.Random(seed)
        config = EngineConfig(kept_acknowledgements=draw.choice((2, 5, 1_024)))
        admission, replayed, taken, expected = admitted(PLAIN, config), admitted(PLAIN, config), list[object](), 0
        for _ in range(draw.randrange(3, 12)):
            first = max(0, expected + draw.choice((0, 0, 0, -1, -3, 1)))
            count = draw.randrange(2, 7)
            bad = draw.randrange(count) if draw.random() < 0.3 else None
            batches = [numbers(*([None] if place == bad else [first + place] * 2)) for place in range(count)]
            try:
                answer, events = send(admission, shared(first, *batches))
            except PSoupError as problem:
                outcomes.add(problem.reason)
                continue
            for event in events:
                replayed.replay(event)
            taken += rows_of(events)
            expected = max(expected, first + len(answer.batches))
            assert position(admission) == (expected, 2 * expected)
            assert (answer.refusal is None) == (len(answer.batches) == count)
            outcomes.add((len(events) > 1, answer.refusal is None))
            assert replayed.state() == admission.state()
        assert taken == [number for number in range(expected) for _ in range(2)]
    assert {"NUMBER_GAP", "NUMBER_TOO_OLD", (False, True), (True, True), (True, False)} <= outcomes
