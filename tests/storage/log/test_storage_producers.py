"""Exactly once with producers that make way, a log that forgets, and a service that is killed: nothing is taken twice.

senders, each with a name and what it knew when it began:  0 1 2 …, any of them again, at any time
between them: time goes by, the log forgets, the directory is found as a kill left it
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from psoup.admission import Admission
from psoup.admission.rows.idempotency_keys import key_name
from psoup.admission.together import prepare_shared
from psoup.config import EngineConfig
from psoup.errors import PSoupError
from psoup.events.acknowledgements import ProducerAcknowledgement
from psoup.events.commands import CreateStream, Heartbeat, Locate, Push, SharedBatch
from psoup.events.events import Pushed
from psoup.events.tenants import CreateTenant, Quotas
from psoup.model import SECOND
from psoup_storage.durable.log import truncation
from psoup_storage.durable.store import DurableStore
from psoup_testing.engines.admission_gate import rows
from psoup_testing.suite.budget import scaled

CONFIG = EngineConfig(producers=3, producer_rest=SECOND, kept_acknowledgements=2, producer_idle=10**6 * SECOND)
SHARED = replace(CONFIG, producers=1_000, memory_bytes=23_600)
"""With a second tenant the first one's producers may take 4,425 bytes: three with four batches."""
EMPTY = rows(t=[])
DIGEST = b"no rows"
LIARS = {"x", "y"}
"""Who begins again under its old epoch, and says that this was never sent: its own loss."""
NAMES = st.sampled_from(["a", "b", "c", "d", "e", *LIARS])


@dataclass
class Sender:
    """A producer's life under one name and epoch: what it knew when it began, and its next number."""

    name: str
    epoch: int
    since: int
    number: int = 0


@dataclass
class Place:
    """A directory, the admission over it, and every (name, epoch, number) that was taken."""

    path: Path
    config: EngineConfig = CONFIG
    now: int = 1
    taken: set[tuple[str, int, int]] = field(default_factory=set)
    epochs: dict[str, int] = field(default_factory=dict)
    senders: dict[str, Sender] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.store = DurableStore(self.path / "0", remembered=CONFIG.remembered)
        self.admission = Admission(self.config)
        self.lives = 0
        if self.config is SHARED:
            self.tell(CreateTenant("other", Quotas()))
        self.tell(CreateStream("CREATE STREAM s (t TIMESTAMP) TIMESTAMP BY t"))

    def tell(self, command: Any) -> None:
        prepared = prepare_shared(command, lambda each: self.admission.prepare(each, self.now * SECOND))
        self.store.append(prepared.events)
        for event in prepared.events:
            if not isinstance(event, Pushed):
                continue
            for place in range(len(event.batches)):
                key = (event.producer, event.epoch, event.number + place)
                assert key not in self.taken or event.producer in LIARS, f"{key} was taken twice"
                self.taken.add(key)
        if prepared.refusal is not None:
            raise prepared.refusal

    def begin(self, name: str) -> None:
        epoch = self.epochs[name] = 0 if name in LIARS else self.epochs.get(name, -1) + 1
        self.senders[name] = Sender(name, epoch, self.admission.sequence)

    def send(self, name: str, back: int, since: bool, source: bool = False) -> None:
        """The next number of a sender, or one of those `back` before it again; with a source position if `source`."""
        sender = self.senders.get(name)
        if sender is None:
            return
        number = max(0, sender.number - back)
        known = sender.since if since else 0
        try:
            position = b"%d of %d" % (number, sender.epoch) if source else b""
            self.tell(Push("s", EMPTY, name, sender.epoch, number, DIGEST, since=known, source=position))
            sender.number = max(sender.number, number + 1)
        except PSoupError as problem:
            self.refused.add(problem.reason)

    def share(self, name: str, back: int, count: int) -> None:
        """Push `count` numbers of a sender at once. The first one is `back` before its next number."""
        sender = self.senders.get(name)
        if sender is None:
            return
        first = max(0, sender.number - back)
        try:
            shared = (SharedBatch(DIGEST, 0),) * count
            numbered = Push("s", EMPTY, name, sender.epoch, first, DIGEST, since=sender.since)
            self.tell(replace(numbered, shared=shared, whole=True))
            sender.number = max(sender.number, first + count)
        except PSoupError as problem:
            self.refused.add(problem.reason)
            while (name, sender.epoch, sender.number) in self.taken:
                sender.number += 1

    def key(self, name: str) -> None:
        """A request with an idempotency key."""
        try:
            self.tell(Push("s", EMPTY, key_name(name), digest=b"body"))
        except PSoupError as problem:
            self.refused.add(problem.reason)

    def forget(self) -> None:
        """What the log does after some chunks: a heartbeat is its newest row, so that no push has to stay for that."""
        self.tell(Heartbeat("s", self.now * SECOND))
        with self.store._database.transaction() as connection:
            truncation.forget_aged(connection, 1, CONFIG.remembered)

    def kill(self) -> None:
        """Go on with the directory as it is found, by what is in the log."""
        before = self.admission.state()["streams"]
        self.lives += 1
        found = self.path / str(self.lives)
        shutil.copytree(self.path / str(self.lives - 1), found, ignore=shutil.ignore_patterns("lock"))
        self.store.close()
        self.store, self.admission = DurableStore(found, remembered=CONFIG.remembered), Admission(self.config)
        for event in self.store.read():
            self.admission.replay(event)
        self.admission.check()
        assert self.admission.state()["streams"] == before


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), NAMES),
        st.tuples(st.just("send"), NAMES, st.integers(0, 3), st.booleans(), st.booleans()),
        st.tuples(st.just("send"), NAMES, st.integers(0, 1), st.just(True), st.booleans()),
        st.tuples(st.just("share"), NAMES, st.integers(0, 3), st.integers(2, 4)),
        st.tuples(st.just("key"), st.sampled_from("pqrstu")),
        st.tuples(st.just("rest"), st.integers(0, 2)),
        st.tuples(st.just("forget")),
        st.tuples(st.just("kill")),
    ),
    max_size=60,
)


def play(steps: list[tuple[Any, ...]], config: EngineConfig = CONFIG) -> Place:
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder), config)
        for act, *facts in steps:
            if act == "rest":
                place.now += facts[0]
            else:
                getattr(place, act)(*facts)
        place.forget()
        place.kill()
        place.store.close()
        return place


@settings(max_examples=scaled(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS, st.sampled_from([CONFIG, SHARED]))
def test_no_number_is_taken_twice_whoever_is_forgotten_and_whenever_it_is_killed(
    steps: list[tuple[Any, ...]], config: EngineConfig
) -> None:
    play(steps, config)


def test_who_displaced_another_for_memory_may_be_known_for_long() -> None:
    """Batches of b and of c that are not the first displace a, and then nobody."""
    steps: list[tuple[Any, ...]] = []
    for name in "abcd":
        steps += [("begin", name), ("send", name, 0, True), ("rest", 1)]
    assert play([*steps, ("send", "d", 0, True), ("send", "a", 1, True)], SHARED).refused == {"PRODUCER_FORGOTTEN"}
    steps = steps[:-3] + [("send", "b", 0, False), ("send", "c", 0, False)] * 2
    place = play([*steps, ("send", "c", 0, True), ("forget",), ("kill",), ("send", "a", 1, True)], SHARED)
    assert place.refused == {"PRODUCER_FORGOTTEN"}


def test_what_was_forgotten_stays_so_when_its_rows_and_those_of_who_displaced_it_are_gone() -> None:
    """c displaces a, then d, e and f displace b, c and d: of c's row only the later ones know."""
    steps: list[tuple[Any, ...]] = []
    for name in "abcdef":
        steps += [("begin", name), ("send", name, 0, True), ("rest", 1), ("forget",), ("kill",)]
    steps += [("send", name, 1, since) for name in "abcdef" for since in (True, False)]
    place = play(steps)
    assert place.refused == {"PRODUCER_FORGOTTEN"}
    assert len(place.taken) == 6


def test_who_displaced_another_may_send_for_long() -> None:
    """d displaces a, and sends more than is remembered: the row that says so stays."""
    steps: list[tuple[Any, ...]] = []
    for name in "abcd":
        steps += [("begin", name), ("send", name, 0, True), ("rest", 1)]
    steps += [("send", "d", 0, True)] * 5 + [("forget",), ("kill",), ("send", "a", 1, True)]
    assert play(steps).refused == {"PRODUCER_FORGOTTEN"}


def test_a_log_that_has_rows_of_two_lives_of_a_producer_is_read() -> None:
    steps: list[tuple[Any, ...]] = [("begin", "x"), ("send", "x", 0, True), ("send", "x", 0, True), ("rest", 1)]
    for name in ["a", "b", "c", "x", "d", "e"]:
        steps += [("begin", name), ("send", name, 0, True), ("rest", 1)]
    play([*steps, ("send", "x", 0, True), ("forget",), ("kill",)])


def test_a_source_position_stays_when_the_row_that_brought_it_is_gone() -> None:
    """Five later batches without a position: the log remembers two of them, and each repeats the position."""
    steps: list[tuple[Any, ...]] = [("begin", "a"), ("send", "a", 0, True, True)]
    steps += [("send", "a", 0, True)] * 5 + [("forget",), ("kill",), ("forget",), ("kill",)]
    place = play(steps).admission.prepare(Locate("s", "a"), SECOND).acknowledgement
    assert isinstance(place, ProducerAcknowledgement)
    assert (place.number, place.source) == (6, b"0 of 0")


def test_who_was_forgotten_and_begins_anew_is_remembered_by_its_new_numbers() -> None:
    steps: list[tuple[Any, ...]] = [("begin", "a"), ("send", "a", 0, True), ("send", "a", 0, True), ("rest", 1)]
    for name in "bcd":
        steps += [("begin", name), ("send", name, 0, True), ("rest", 1)]
    steps += [("begin", "a"), ("send", "a", 0, True), ("kill",), ("forget",), ("send", "a", 0, True), ("kill",)]
    assert len(play(steps).taken) == 7
