"""A topic of Kafka that feeds a stream or a table: each record once, whatever is killed.

    start      places of the service ──> check against Kafka ──> assign
    read       records of all partitions ──> runs of one partition ──convert──> batch, position = next offset
                                                               └──> quarantine, before the batch
    replies    places ──> consumer group, only for tools that show lag

The position lies in the same event as the rows. So a feed that is killed, with Kafka or the service, repeats nothing
and loses nothing, without transactions. Each start takes a new epoch, which ends an earlier feed of the same name.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path

from confluent_kafka import Message

from psoup_client import (
    Client,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidData,
    Producer,
    PSoupError,
    Unavailable,
)
from psoup_kafka.cluster import Cluster
from psoup_kafka.conversion import Converter, Target
from psoup_kafka.figures import Figures, PartitionLag
from psoup_kafka.partition import PartitionFeed
from psoup_kafka.place import Place, recorded_place
from psoup_kafka.quarantine import Poison, Quarantine
from psoup_kafka.settings import KafkaSource
from psoup_kafka.start import Bounds, From, begin, check_new

PATIENCE_SECONDS = 600.0
"""The seconds for which the feed waits for brokers or a service that are away."""

PAUSE_SECONDS = 0.1
"""The longest wait for a record. Replies of the service are looked at after it."""

REFRESH_SECONDS = 10.0
"""The seconds between two looks for new partitions."""

COMMIT_SECONDS = 5.0
"""The seconds between two commits to the consumer group."""

REMEMBER_SECONDS = 3_600.0
"""The seconds without records after which a position is recorded anew, so that the service does not forget it."""

END_SECONDS = 10.0
"""The seconds that the end of a feed waits for replies."""

BATCH_BYTES = 4 * 1024 * 1024
"""The bytes of values at which a batch ends."""

COLLECT_OBJECTS = 250_000
"""The objects after which Python looks for garbage, while a feed runs. Each record is one: the default is 700."""

WINDOW_BYTES = 64 * 1024 * 1024
"""The bytes of batches without a reply, of all partitions."""

_GLANCE_SECONDS = 0.001

_STARTS = 5
"""The most starts after another feed, the last batch of a killed one, or a takeover moved a position meanwhile."""

_BEGIN_AGAIN = ("SOURCE_POSITION", "BATCHES_LOST")
"""The reasons of errors after which a feed begins again at the recorded positions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedOptions:
    """The options of a feed. `start`: where partitions without a valid place begin; None: see `start.begin`.

    `until_end`: end when all records that were there at the start are in. `quarantine`: the folder for records that do
    not fit; without it, the first one ends the feed. `refresh`: seconds between two looks for new partitions.
    """

    start: From | None = None
    until_end: bool = False
    quarantine: Path | None = None
    patience: float = PATIENCE_SECONDS
    refresh: float = REFRESH_SECONDS


class TopicFeed:
    """A feed of one topic.

    `tell`: called after each read, with a function that computes the figures so far. `notice`: called with a sentence
    if a partition goes on elsewhere than at its recorded place.
    """

    def __init__(
        self,
        client: Client,
        source: KafkaSource,
        target: Target,
        options: FeedOptions = FeedOptions(),
        tell: Callable[[Callable[[], Figures]], None] | None = None,
        notice: Callable[[str], None] | None = None,
    ) -> None:
        self._client = client
        self._source = source
        self._stream = target.info.name
        self._converter = Converter(target)
        self._options = options
        self._tell = tell or (lambda _: None)
        self._notice = notice or (lambda _: None)
        self._stopped = threading.Event()
        self._parts = dict[int, PartitionFeed]()
        self._ends = dict[int, int]()
        """The ends at which --until-end ends, of partitions that are not there yet."""
        self._quarantine = None if options.quarantine is None else Quarantine(options.quarantine)
        self._closed = Figures()
        """The figures of producers that are closed."""
        self._poison = 0
        self._began = time.monotonic()
        self._waiting = ""
        self._lags: tuple[PartitionLag, ...] = ()

    def stop(self) -> None:
        """End `run` soon, with all batches acknowledged. May be called by a handler of signals."""
        self._stopped.set()

    def figures(self) -> Figures:
        """The outcome so far."""
        return self._sum(self._closed, [part.producer for part in self._parts.values()])

    def run(self) -> Figures:
        """Feed without end, up to the present end, or until `stop`. Raises PSoupError, and OSError of the quarantine.

        All good records before an error are in.
        """
        cluster = Cluster(self._source, self._source.group(self._stream))
        before = gc.get_threshold()
        gc.set_threshold(COLLECT_OBJECTS, *before[1:])
        try:
            for attempt in range(1, _STARTS + 1):
                try:
                    self._run(cluster, claim=attempt > 1)
                    return self.figures()
                except PSoupError as problem:
                    if problem.reason == "EPOCH_FENCED":
                        raise self._fenced() from problem
                    if problem.reason not in _BEGIN_AGAIN or attempt == _STARTS:
                        raise
                finally:
                    self._end()
            raise AssertionError("the last attempt returns or raises")
        finally:
            if before[0] != COLLECT_OBJECTS:  # another feed of this process sets it back
                gc.set_threshold(*before)
            self._close(cluster)

    def _fenced(self) -> PSoupError:
        source = self._source
        return FailedPrecondition(
            f"another feed of the name {source.name!r} has begun to feed {self._stream!r}, and this one ends. All"
            " records that it took are in, once. Run one feed for a topic and a stream; feeds of other topics or"
            " brokers need another --name",
            reason="FEED_REPLACED",
            facts={"name": source.name},
        )

    def lags(self, cluster: Cluster) -> tuple[PartitionLag, ...]:
        """The lag of each partition, as the last fetches told it."""
        parts = sorted(self._parts.items())
        return tuple(PartitionLag(number, part.recorded, cluster.end(number)) for number, part in parts)

    # The start ---------------------------------------------------------------------------------------

    def _run(self, cluster: Cluster, claim: bool) -> None:
        self._parts, self._ends = {}, {}
        try:
            self._add(cluster, cluster.partitions(), claim)
            refreshed = committed = time.monotonic()
            while not self._stopped.is_set() and not (self._options.until_end and self._is_done()):
                self._read(cluster)
                now = time.monotonic()
                if now - refreshed >= self._options.refresh:
                    self._refresh(cluster)
                    refreshed = time.monotonic()
                if now - committed >= COMMIT_SECONDS:
                    self._commit(cluster)
                    committed = now
                self._tell(lambda: self._with_lags(cluster))
        except BaseException:
            with suppress(PSoupError):  # all batches before the error are to be in
                self._finish(cluster)
            raise
        self._finish(cluster)

    def _add(self, cluster: Cluster, numbers: Sequence[int], claim: bool = False) -> None:
        """Begin with partitions, and read them besides those that are read already.

        `claim`: record their places in the new epoch at once, which ends another feed of the same name.
        """
        places = {n: recorded_place(self._client, self._stream, self._source.producer(n)) for n in numbers}
        first_start = not self._parts and not any(places.values())
        if first_start and self._options.start is None:
            check_new(self._source.name, self._stream, cluster.group_offsets(numbers))
        bounds = {number: Bounds(self._source.topic, number, *cluster.offsets(number)) for number in numbers}
        bounds = self._with_times(cluster, places, bounds)
        starts = {number: begin(bounds[number], places[number], self._options.start, first_start) for number in numbers}
        for number, start in starts.items():
            if self._quarantine is not None:
                self._quarantine.cut(self._source.topic, number, start.next)
            part = PartitionFeed(number, places[number], partial(self._producer, number))
            part.begin(start, claim)
            self._parts[number], self._ends[number] = part, bounds[number].high
            before = places[number]
            if before is not None and start != before:
                self._notice(f"partition {number}: going on at offset {start.next}, and not at {before.next}")
        cluster.assign({number: part.next for number, part in self._parts.items()})

    def _with_times(
        self, cluster: Cluster, places: dict[int, Place | None], bounds: dict[int, Bounds]
    ) -> dict[int, Bounds]:
        """Add the timestamps of the records before the recorded places, as far as Kafka has these records."""
        wanted = dict[int, int]()
        for number, place in places.items():
            if place is not None and place.time is not None and bounds[number].low < place.next <= bounds[number].high:
                wanted[number] = place.next - 1
        timed = dict[int, Bounds]()
        if wanted:
            for message in cluster.peek(wanted):
                at = int(message.partition() or 0)
                if message.offset() == wanted[at]:
                    old = bounds[at]
                    timed[at] = Bounds(old.topic, at, old.low, old.high, message.timestamp()[1])
        return bounds | timed

    def _producer(self, number: int) -> Producer:
        window = max(BATCH_BYTES, WINDOW_BYTES // max(1, len(self._parts)))
        return self._client.producer(
            self._stream,
            name=self._source.producer(number),
            retry_seconds=self._options.patience,
            window_bytes=window,
            on_refused=lambda _: None,  # they are counted
        )

    # Reading -----------------------------------------------------------------------------------------

    def _read(self, cluster: Cluster) -> None:
        messages, ends, lost = cluster.read(PAUSE_SECONDS)
        for number, run in _runs(messages):
            self._take(self._parts[number], run)
        for number, end in ends.items():
            part = self._parts[number]
            if end > part.next:  # control records of transactions
                part.push([], Place(end))
        for part in self._parts.values():
            if not part.note_replies():
                if not messages:
                    with suppress(DeadlineExceeded):  # any other error ends the feed
                        part.flush(_GLANCE_SECONDS)
            elif time.monotonic() - part.touched > REMEMBER_SECONDS:
                part.push([], part.last)
        if lost:
            self._check(cluster, lost)
        self._wait_for_brokers(cluster)

    def _take(self, part: PartitionFeed, run: Sequence[Message]) -> None:
        """Send a run of records as a batch."""
        if (run[0].offset() or 0) < part.next:  # after a new assignment
            run = [message for message in run if (message.offset() or 0) >= part.next]
            if not run:
                return
        converted = self._converter.convert(run)
        if converted.poison:
            self._set_aside(part, run, converted.poison)
        part.push(converted.table, _behind(run[-1]))

    def _set_aside(self, part: PartitionFeed, run: Sequence[Message], poison: Sequence[Poison]) -> None:
        """Write records to the quarantine. Without one, send the records before the first of them, and raise."""
        if self._quarantine is not None:
            self._quarantine.add(self._source.topic, part.number, poison)
            self._poison += len(poison)
            return
        first = poison[0]
        good = run[: run.index(first.message)]
        if good:
            part.push(self._converter.convert(good).table, _behind(good[-1]))
        offset = first.message.offset()
        raise InvalidData(
            f"the record at offset {offset} of partition {part.number}, topic {self._source.topic!r}, does not fit"
            f" {self._stream!r}: {first.reason}. All records before it are in. With --quarantine DIR such records are"
            " set aside, and the feed goes on",
            reason="POISON_RECORD",
            facts={"partition": str(part.number), "offset": str(offset)},
        )

    def _check(self, cluster: Cluster, lost: Sequence[int]) -> None:
        """Find out why Kafka does not have an offset; raises that. Reads on if it has it again."""
        for number in lost:
            bounds = Bounds(self._source.topic, number, *cluster.offsets(number))
            begin(bounds, self._parts[number].last, None, False)
        cluster.assign({number: part.next for number, part in self._parts.items()})

    def _refresh(self, cluster: Cluster) -> None:
        """Look for new partitions. Raises NotFound if the topic is gone."""
        with suppress(Unavailable):  # `_wait_for_brokers` ends the wait
            new = [number for number in cluster.partitions(PAUSE_SECONDS * 30) if number not in self._parts]
            if new:
                self._add(cluster, new)

    def _wait_for_brokers(self, cluster: Cluster) -> None:
        if cluster.away_since is None:
            self._waiting = ""
            return
        self._waiting = "waiting for the brokers of Kafka"
        if time.monotonic() - cluster.away_since > self._options.patience:
            raise cluster.away()

    # The end -----------------------------------------------------------------------------------------

    def _is_done(self) -> bool:
        """Whether all records that were there at the start are acknowledged."""
        return all(part.note_replies() and part.last.next >= self._ends[n] for n, part in self._parts.items())

    def _finish(self, cluster: Cluster) -> None:
        """Wait for the replies to all batches, and tell the group."""
        problem: PSoupError | None = None
        for part in self._parts.values():
            try:
                part.flush(END_SECONDS)
            except PSoupError as error:
                problem = problem or error
        self._commit(cluster)
        self._lags = self.lags(cluster)
        if problem is not None:
            raise problem

    def _end(self) -> None:
        for part in self._parts.values():
            part.close()
        self._closed = self._sum(self._closed, [part.producer for part in self._parts.values()])
        self._parts = {}

    def _close(self, cluster: Cluster) -> None:
        cluster.settle(2.0)
        cluster.close()
        if self._quarantine is not None:
            self._quarantine.close()

    def _commit(self, cluster: Cluster) -> None:
        offsets = {number: part.recorded for number, part in self._parts.items() if part.recorded is not None}
        if offsets:
            cluster.commit(offsets)

    def _with_lags(self, cluster: Cluster) -> Figures:
        self._lags = self.lags(cluster)
        return self.figures()

    def _sum(self, before: Figures, producers: Sequence[Producer | None]) -> Figures:
        results = [producer.result for producer in producers if producer is not None]
        return Figures(
            before.rows + sum(result.accepted for result in results),
            self._poison,
            before.late + sum(result.late for result in results),
            before.ahead + sum(result.ahead for result in results),
            self._lags,
            time.monotonic() - self._began,
            self._waiting,
        )


def _behind(message: Message) -> Place:
    """The place behind a record."""
    kind, millis = message.timestamp()
    return Place(int(message.offset() or 0) + 1, millis if kind else None)


def _runs(messages: Sequence[Message]) -> Iterator[tuple[int, list[Message]]]:
    """Gather the records of each partition, in the order of their offsets, in runs of about BATCH_BYTES."""
    runs = dict[int, list[Message]]()
    for number, some in groupby(messages, Message.partition):
        runs.setdefault(int(number or 0), []).extend(some)
    for number, run in runs.items():
        size = sum(map(len, run))
        step = max(1, len(run) * BATCH_BYTES // max(size, 1))  # by the mean size: one large record makes all runs short
        for first in range(0, len(run), step):
            yield number, run[first : first + step]
