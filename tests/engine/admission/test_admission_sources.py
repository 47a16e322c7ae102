"""Source positions: kept with a producer's batches, compared with the position that a batch is to follow.

number    0      1      2      3
position  b"10"  -      b"30"  b"40" after b"30"
recorded  10     10     30     40
"""

from __future__ import annotations

import random

import pytest

from psoup.admission.rows.producers import ACKNOWLEDGEMENT_BYTES, PRODUCER_BYTES
from psoup.config import EngineConfig
from psoup.errors import Conflict, FailedPrecondition, InvalidInput, NotFound, ResourceExhausted
from psoup.events.acknowledgements import ProducerAcknowledgement
from psoup.events.commands import STAGED, Locate, Push, Recall
from psoup.events.tenants import CreateTenant, Quotas
from psoup.model import SECOND
from psoup_testing.engines.admission_gate import Gate, rows
from psoup_testing.oracles.questions import again

A, NOTHING = rows(x=[1, 2]), rows(x=[])


def make(**settings: int) -> Gate:
    gate = Gate(EngineConfig(**settings))  # type: ignore[arg-type]
    gate.create("CREATE STREAM s (x BIGINT)")
    return gate


def recorded(gate: Gate, producer: str = "p") -> bytes:
    place = gate.send(Locate("s", producer)).acknowledgement
    assert isinstance(place, ProducerAcknowledgement)
    return place.source


def test_a_position_is_recorded_with_its_batch_and_stays_until_the_next_one() -> None:
    gate = make(kept_acknowledgements=2)
    gate.produce(0, A, source=b"10")
    assert (recorded(gate), gate.pushed.source) == (b"10", b"10")
    for number in range(1, 5):
        gate.produce(number, A)
        assert gate.pushed.source == b"10", "the log may forget the batch that had it"
    gate.produce(5, NOTHING, source=b"30")
    gate.produce(6, A, source=b"\x00\xff" * 128, after=b"30")
    assert recorded(gate) == b"\x00\xff" * 128
    gate.produce(0, A, epoch=1, producer="q", after=b"")
    assert recorded(gate, "q") == b""


def test_a_greater_epoch_goes_on_from_the_position() -> None:
    gate = make()
    gate.produce(0, A, source=b"10")
    gate.produce(0, A, epoch=1)
    assert recorded(gate) == b"10"
    gate.produce(1, A, epoch=1, source=b"20", after=b"10")
    assert recorded(gate) == b"20"


@pytest.mark.parametrize(
    ("sent", "after", "shown"), [(b"10", b"9", "b'10'"), (b"10", b"", "b'10'"), (b"", b"9", "none")]
)
def test_a_batch_that_does_not_follow_the_recorded_position_is_refused(sent: bytes, after: bytes, shown: str) -> None:
    gate = make()
    gate.produce(0, A, source=sent)
    events = len(gate.events)
    with pytest.raises(FailedPrecondition, match=f"and {shown} is recorded; nothing was taken") as caught:
        gate.produce(1, A, source=b"20", after=after)
    assert (caught.value.reason, caught.value.facts["recorded"]) == ("SOURCE_POSITION", sent.hex())
    assert (recorded(gate), len(gate.events)) == (sent, events)
    gate.produce(1, A, source=b"20", after=sent)


def test_an_unknown_producer_has_no_position() -> None:
    gate = make()
    with pytest.raises(FailedPrecondition, match="follows source position b'9', and none is recorded"):
        gate.produce(0, A, source=b"20", after=b"9")
    with pytest.raises(NotFound):
        recorded(gate)


def test_a_repeat_is_answered_whatever_is_recorded() -> None:
    gate = make()
    gate.produce(0, A, source=b"10", after=b"")
    gate.produce(1, A, source=b"20", after=b"10")
    assert gate.produce(0, A, source=b"10", after=b"").duplicate
    assert recorded(gate) == b"20"


def test_the_same_rows_with_another_position_are_another_batch() -> None:
    gate = make()
    gate.produce(0, NOTHING, source=b"10")
    for other in (b"20", b""):
        with pytest.raises(Conflict):
            gate.produce(0, NOTHING, source=other)
    assert gate.produce(0, NOTHING, source=b"10").duplicate
    gate.produce(1, NOTHING)
    with pytest.raises(Conflict):
        gate.produce(1, NOTHING, source=b"10")


def test_a_stage_that_comes_again_is_known_by_its_number() -> None:
    gate = make()
    first = gate.produce(0, A, digest=STAGED, source=b"10")
    answer = gate.send(Recall("s", "p", 0, 0)).acknowledgement
    assert (answer.sequence, answer.duplicate) == (first.sequence, True)
    assert gate.produce(0, A, digest=STAGED, source=b"11").duplicate
    assert recorded(gate) == b"10"


def test_bad_positions_are_refused_by_name() -> None:
    gate = make()
    for more in ({"source": b"x" * 257}, {"after": b"x" * 257}):
        with pytest.raises(InvalidInput, match="has 257 bytes; a source position has at most 256"):
            gate.produce(0, A, **more)
    for more in ({"source": b"7"}, {"after": b"7"}, {"after": b""}):
        with pytest.raises(InvalidInput, match="the batch names no producer"):
            gate.send(Push("s", A, **more))  # type: ignore[arg-type]
    gate.produce(0, A, source=b"x" * 256, after=b"")


def test_a_position_is_charged_and_makes_room_for_itself() -> None:
    """Producers without a position make way for one with a position: the memory of all stays within the limit."""
    gate = Gate(EngineConfig(memory_bytes=40_000, kept_acknowledgements=4, producer_rest=60 * SECOND))
    for name in ("evil", "good"):
        gate.send(CreateTenant(name, Quotas()))
    gate.create("CREATE STREAM s (x BIGINT)", tenant="evil")
    count, limit = 0, 6_666
    while True:
        try:
            gate.send(Push("s", NOTHING, f"p{count}", tenant="evil", since=1))
        except ResourceExhausted:
            break
        count += 1
    assert count == limit // (PRODUCER_BYTES + ACKNOWLEDGEMENT_BYTES)
    gate.now = 60
    for number in range(20):
        since = gate.admission.sequence
        gate.send(Push("s", NOTHING, f"q{number}", tenant="evil", since=since, source=b"x" * 256))
        assert gate.admission.judge.producer_bytes("evil") <= limit
        gate.now += 60
    gate.admission.check()


@pytest.mark.parametrize("seed", range(4))
def test_random_feeds_follow_their_own_record(seed: int) -> None:
    """A model of the record: batches with and without positions, repeats, wrong `after`, greater epochs."""
    chance = random.Random(seed)
    gate = make(kept_acknowledgements=3)
    model = {name: [0, 0, b"", [], False] for name in "ab"}  # epoch, number, recorded, sent, known
    for step in range(60):
        name = chance.choice("ab")
        epoch, number, before, sent, begun = model[name]
        if chance.random() < 0.1 and begun:
            epoch, number, sent = epoch + 1, 0, []
        if sent and chance.random() < 0.2:
            past = sent[-1]
            assert gate.produce(number - 1, NOTHING, epoch=epoch, producer=name, source=past).duplicate
            continue
        source = chance.choice([b"", b"%d" % step])
        after = chance.choice([None, before, b"other"])
        if after == b"other":
            with pytest.raises(FailedPrecondition):
                gate.produce(number, NOTHING, epoch=epoch, producer=name, source=source, after=after)
            continue
        gate.produce(number, NOTHING, epoch=epoch, producer=name, source=source, after=after)
        model[name] = [epoch, number + 1, source or before, [*sent, source], True]
        assert again(recorded, gate, name) == (source or before)
    gate.admission.check()
