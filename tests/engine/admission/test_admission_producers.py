"""Exactly once: repeats, conflicts, gaps, fences, forgetting."""

from __future__ import annotations

import numpy as np
import pytest

from psoup.admission.rows.producers import ACKNOWLEDGEMENT_BYTES, PRODUCER_BYTES
from psoup.config import EngineConfig
from psoup.errors import (
    Conflict,
    FailedPrecondition,
    InvalidBatch,
    InvalidInput,
    NotFound,
    PSoupError,
    ResourceExhausted,
)
from psoup.events.acknowledgements import ProducerAcknowledgement
from psoup.events.commands import STAGED, Locate, Push, Recall
from psoup.model import SECOND
from psoup.values.digests import digest_of
from psoup_testing.engines.admission_gate import Gate, rows

A, B = rows(x=[1, 2]), rows(x=[3])


def make(**settings: int) -> Gate:
    gate = Gate(EngineConfig(**settings))  # type: ignore[arg-type]
    gate.create("CREATE STREAM s (x BIGINT)")
    return gate


def refused(kind: type[PSoupError], reason: str, gate: Gate, number: int, **more: object) -> PSoupError:
    with pytest.raises(kind) as caught:
        gate.produce(number, A, **more)  # type: ignore[arg-type]
    assert caught.value.reason == reason
    return caught.value


def test_a_repeat_is_acknowledged_as_it_was_and_not_taken_again() -> None:
    gate = make()
    first = gate.produce(0, A)
    gate.produce(1, B)
    again = gate.produce(0, A)
    assert (again.duplicate, again.sequence, again.accepted) == (True, first.sequence, 2)
    assert again.watermark == first.watermark
    assert len(gate.events) == 3


def test_a_repeat_is_acknowledged_when_memory_is_full() -> None:
    gate = make(memory_bytes=rows_bytes(2) + PRODUCER_BYTES + ACKNOWLEDGEMENT_BYTES)
    first = gate.produce(0, A)
    with pytest.raises(ResourceExhausted, match="about 1,300 by what producers sent last"):
        gate.produce(1, A)
    assert gate.produce(0, A).sequence == first.sequence


def rows_bytes(count: int) -> int:
    """What `count` rows of one BIGINT and their times are charged."""
    return count * (8 + 9)


@pytest.mark.parametrize("digest", [b"", b"\x01"])
def test_another_payload_under_the_same_number_is_a_conflict(digest: bytes) -> None:
    gate = make()
    gate.produce(0, A, digest=digest)
    with pytest.raises(Conflict, match="number 0 was used for another payload") as caught:
        gate.produce(0, B, digest=digest and b"\x02")
    assert caught.value.reason == "PAYLOAD_CONFLICT"


def test_a_digest_of_an_earlier_version_tells_a_repeat_by_its_rows() -> None:
    gate, now = make(), digest_of([b"rows"])
    first = gate.produce(0, A, digest=b"16 bytes, as was")
    assert gate.produce(0, A, digest=now).sequence == first.sequence
    with pytest.raises(Conflict):
        gate.produce(0, B, digest=now)
    gate.produce(1, A, digest=now)
    for other in (b"16 bytes, as was", STAGED, now[::-1], b""):
        with pytest.raises(Conflict):
            gate.produce(1, A, digest=other)
    gate.produce(2, A, digest=STAGED)
    with pytest.raises(Conflict):
        gate.produce(2, A, digest=now)


def test_a_digest_is_that_of_the_bytes_however_they_are_cut() -> None:
    values = np.arange(100)
    assert digest_of([values[:40], values[40:]]) == digest_of([values.tobytes()]) == digest_of([values.data.cast("B")])
    assert digest_of([values[::2]]) == digest_of([values[::2].tobytes()])
    assert digest_of([values > 50]) == digest_of([bytes(51) + b"\x01" * 49])
    assert len({digest_of([values]), digest_of([values[1:]]), digest_of([]), digest_of([b"\0"])}) == 4


def test_the_same_values_in_another_form_are_the_same_payload() -> None:
    gate = make()
    gate.produce(0, A)
    other = rows(x=A.column("x").cast("int32").slice(0))
    assert gate.produce(0, other).duplicate


def test_payloads_that_differ_only_in_nulls_or_cuts_of_text_differ() -> None:
    gate = Gate()
    gate.create("CREATE STREAM s (a TEXT, b TEXT)")
    gate.produce(0, rows(a=["xy"], b=["z"]))
    for other in (rows(a=["x"], b=["yz"]), rows(a=["xy"], b=[None]), rows(a=["xy", ""], b=["z", ""])):
        with pytest.raises(Conflict):
            gate.produce(0, other)
    assert gate.produce(0, rows(a=["-", "xy"], b=["-", "z"]).slice(1)).duplicate


def test_numbers_are_contiguous_from_zero() -> None:
    gate = make()
    assert refused(FailedPrecondition, "NUMBER_GAP", gate, 1).facts["expected"] == "0"
    gate.produce(0, A)
    assert "number 1 is expected" in refused(FailedPrecondition, "NUMBER_GAP", gate, 2).message


def test_a_refused_batch_does_not_use_up_its_number() -> None:
    gate = make()
    with pytest.raises(InvalidBatch):
        gate.produce(0, rows(y=[1]))
    assert not gate.produce(0, A).duplicate


def test_a_greater_epoch_starts_at_zero_and_fences_the_smaller() -> None:
    gate = make()
    gate.produce(0, A, epoch=3)
    refused(FailedPrecondition, "NUMBER_GAP", gate, 1, epoch=7)
    gate.produce(1, A, epoch=3)  # a refused batch of epoch 7 fences nothing
    gate.produce(0, B, epoch=7)
    assert refused(FailedPrecondition, "EPOCH_FENCED", gate, 2, epoch=3).facts["epoch"] == "7"
    refused(FailedPrecondition, "EPOCH_FENCED", gate, 0, epoch=3)
    assert gate.produce(0, B, epoch=7).duplicate


def test_an_empty_batch_with_a_number_is_an_event() -> None:
    gate = make()
    answer = gate.produce(0, rows(x=[]))
    assert (answer.sequence, answer.accepted) == (2, 0)
    assert gate.produce(0, rows(x=[])).duplicate
    gate.produce(1, A)


def test_only_the_latest_acknowledgements_are_remembered() -> None:
    gate = make(kept_acknowledgements=2)
    for number in range(4):
        gate.produce(number, A)
    assert gate.produce(2, A).duplicate
    assert gate.produce(3, A).duplicate
    assert refused(FailedPrecondition, "NUMBER_TOO_OLD", gate, 1).facts["expected"] == "4"
    gate.produce(4, A)


def test_producers_of_streams_and_names_are_apart() -> None:
    gate = make()
    gate.create("CREATE STREAM other (x BIGINT)")
    gate.produce(0, A)
    gate.produce(0, B, producer="q")
    assert not gate.send(Push("other", B, "p", 0, 0)).acknowledgement.duplicate


def test_a_stream_of_the_same_name_does_not_know_the_old_ones_producers() -> None:
    gate = make()
    gate.produce(0, A)
    gate.drop("s")
    gate.create("CREATE STREAM s (x BIGINT)")
    assert not gate.produce(0, B).duplicate


def test_a_silent_producer_is_forgotten_after_the_stated_time() -> None:
    gate = make(producer_idle=60 * SECOND)
    gate.produce(0, A)
    gate.now = 60
    assert gate.produce(0, A).duplicate
    gate.now = 61
    refused(FailedPrecondition, "NUMBER_GAP", gate, 1)
    gate.produce(0, B, producer="q")  # whose event also forgets p
    assert known(gate) == ["q"]
    gate.produce(0, B, epoch=0)


def known(gate: Gate) -> list[str]:
    return list(gate.admission.state()["streams"][1][5]["known"])  # type: ignore[index]


def crowded() -> tuple[Gate, int]:
    """A stream that remembers two producers, b and c, and had to forget a, which sent numbers 0 and 1; when c began."""
    gate = make(producers=2, producer_rest=10 * SECOND, producer_idle=1_000 * SECOND)
    for number in range(2):
        gate.produce(number, A, producer="a", since=1)
    gate.now = 5
    gate.produce(0, A, producer="b", since=3)
    gate.now = 10
    began = gate.admission.sequence
    gate.produce(0, A, producer="c", since=began)
    assert known(gate) == ["b", "c"]
    return gate, began


@pytest.mark.seeded("F21: names of producers are used up, and what is remembered of them is free of charge")
def test_the_longest_silent_producer_makes_way_for_one_that_says_since_when_it_is_new() -> None:
    gate, began = crowded()
    assert gate.pushed.forgotten == 3  # the last event of a
    assert gate.produce(0, A, producer="c", since=began).duplicate
    gate.now = 14
    assert refused(ResourceExhausted, "TOO_MANY_PRODUCERS", gate, 0, producer="d", since=5)  # b has just sent
    gate.now = 15
    gate.produce(0, A, producer="d", since=5)
    assert known(gate) == ["c", "d"]


def test_what_a_forgotten_producer_sends_again_is_not_taken() -> None:
    gate, began = crowded()
    for number in (0, 1, 2):
        for since in (0, 1):
            problem = refused(FailedPrecondition, "PRODUCER_FORGOTTEN", gate, number, producer="a", since=since)
            assert problem.facts["sequence"] == str(gate.admission.sequence)
    refused(FailedPrecondition, "PRODUCER_FORGOTTEN", gate, 0, producer="a", epoch=7)
    gate.now = 20
    refused(FailedPrecondition, "NUMBER_GAP", gate, 2, producer="a", since=began)
    gate.produce(0, A, producer="a", epoch=1, since=gate.admission.sequence)
    assert gate.produce(0, A, producer="a", epoch=1, since=1).duplicate


def test_who_asks_about_a_forgotten_producer_is_not_told_that_nothing_was_taken() -> None:
    gate, _ = crowded()
    with pytest.raises(FailedPrecondition) as caught:
        gate.send(Recall("s", "a", 0, 0))
    assert caught.value.reason == "PRODUCER_FORGOTTEN"


def test_where_a_producer_stopped_is_known_until_it_is_forgotten() -> None:
    gate = make(producer_idle=10 * SECOND, kept_acknowledgements=2)

    def at(name: str = "p") -> tuple[int, int, int | None, int]:
        found = gate.send(Locate("s", name)).acknowledgement
        assert isinstance(found, ProducerAcknowledgement)
        return found.epoch, found.number, found.rows, found.sequence

    with pytest.raises(NotFound, match="has sent nothing") as caught:
        at()
    assert caught.value.reason == "UNKNOWN_PRODUCER"
    for number in range(4):
        gate.produce(number, A)
    assert at() == (0, 4, 8, gate.admission.sequence)
    gate.produce(3, A)
    refused(FailedPrecondition, "NUMBER_GAP", gate, 9)
    assert at() == (0, 4, 8, gate.admission.sequence), "what was not taken counts nothing"
    gate.produce(0, B, epoch=2)
    assert at() == (2, 1, 1, gate.admission.sequence)
    gate.now = 11
    with pytest.raises(NotFound):
        at()
    gate.produce(0, B, epoch=2)
    assert at() == (2, 1, 1, gate.admission.sequence)
    forgetful, _ = crowded()
    with pytest.raises(NotFound, match="made way for others"):
        forgetful.send(Locate("s", "a"))


def test_a_producer_that_does_not_say_since_when_it_is_new_displaces_nobody() -> None:
    gate = make(producers=1, producer_rest=10 * SECOND)
    gate.produce(0, A, producer="a")
    gate.now = 100
    assert "`since`" in refused(ResourceExhausted, "TOO_MANY_PRODUCERS", gate, 0, producer="b").message
    assert gate.produce(0, A, producer="a").duplicate


def test_what_was_forgotten_early_is_forgotten_altogether_in_time() -> None:
    gate, _ = crowded()
    gate.now = 1_010
    refused(FailedPrecondition, "PRODUCER_FORGOTTEN", gate, 0, producer="e")
    gate.now = 1_011
    gate.produce(0, A, producer="e")


def test_nobody_is_new_since_an_event_that_has_not_happened() -> None:
    gate = make()
    assert refused(FailedPrecondition, "UNKNOWN_SEQUENCE", gate, 0, since=2).facts["sequence"] == "1"
    gate.produce(0, A, since=1)
    assert gate.produce(0, A, since=99).duplicate  # what is remembered needs no such word


@pytest.mark.seeded("F21: names of producers are used up, and what is remembered of them is free of charge")
def test_what_is_remembered_is_charged_until_it_is_forgotten() -> None:
    gate = make(kept_acknowledgements=2, producer_idle=60 * SECOND)
    for number in range(4):
        gate.produce(number, A)
    assert gate.admission.producer_bytes == PRODUCER_BYTES + 2 * ACKNOWLEDGEMENT_BYTES
    gate.produce(0, A, producer="q")
    assert gate.admission.producer_bytes == 2 * PRODUCER_BYTES + 3 * ACKNOWLEDGEMENT_BYTES
    gate.produce(0, A, epoch=1)
    assert gate.admission.producer_bytes == 2 * (PRODUCER_BYTES + ACKNOWLEDGEMENT_BYTES)
    gate.now = 61
    gate.produce(0, A, producer="r")
    assert gate.admission.producer_bytes == PRODUCER_BYTES + ACKNOWLEDGEMENT_BYTES
    gate.drop("s")
    assert gate.admission.producer_bytes == 0


def test_a_stream_remembers_so_many_producers_and_no_more() -> None:
    gate = make(producers=2, producer_idle=60 * SECOND)
    gate.produce(0, A, producer="a")
    gate.now = 30
    gate.produce(0, A, producer="b")
    assert refused(ResourceExhausted, "TOO_MANY_PRODUCERS", gate, 0, producer="c").facts["limit"] == "2"
    gate.produce(1, A, producer="a")
    gate.now = 91
    gate.produce(0, A, producer="c")  # b is idle and makes room
    gate.produce(0, A, producer="a", epoch=1)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"number": -1}, "number -1"),
        ({"number": 2**63}, "number 9223372036854775808"),
        ({"number": 0, "epoch": -1}, "epoch -1"),
        ({"number": 0, "producer": "p" * 257}, "longer than 256 bytes"),
        ({"number": 5, "producer": ""}, "without a producer"),
        ({"number": 0, "since": -1}, "since -1"),
        ({"number": 0, "producer": "", "since": 1}, "without a producer"),
    ],
)
def test_names_and_numbers_that_cannot_be(more: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make().produce(table=A, **more)  # type: ignore[arg-type]
