"""The brokers, behind one consumer of librdkafka with partitions that the feed assigns itself.

    partitions   the numbers of the topic's partitions now
    offsets      the first offset that Kafka still has, and the end
    assign       read these partitions from these offsets on
    read         records, and errors
    commit       tell the consumer group where the feed is, for tools that show lag

Offsets are never reset silently: an offset that Kafka does not have is an error (`auto.offset.reset=error`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from psoup_client import PSoupError
from psoup_kafka.failures import NO_TOPIC, error_of, is_denied
from psoup_kafka.settings import KafkaSource

CALL_SECONDS = 10.0
"""The deadline of a question to the brokers, in seconds."""

GATHER_SECONDS = 0.005
"""The seconds in which records gather after the first one."""

BACKLOG_SECONDS = 0.05
"""The seconds in which they gather if many wait. Each batch costs the service the work of a thousand rows."""

MANY_RECORDS = 2_000
"""The records of a read from which on many wait."""

MOST_RECORDS = 40_000
"""The most records of one read."""

_LOG = logging.getLogger("psoup_kafka")
_LOG.addHandler(logging.NullHandler())
_LOG.propagate = False


class Cluster:
    """A consumer of one topic. Close it at the end. Calls raise PSoupError: Unavailable if no broker answers."""

    def __init__(self, source: KafkaSource, group: str) -> None:
        self._source = source
        self._trouble = ""
        """The last message about a connection."""
        self._denied: KafkaError | None = None
        self._gather = GATHER_SECONDS
        self.away_since: float | None = None
        """The monotonic time since which no broker is connected; None if one is."""
        self.committed = True
        """Whether the brokers have replied to all commits."""
        self.commit_problem = ""
        config: dict[str, Any] = {
            "group.id": group,
            "client.id": "psoup",
            "fetch.wait.max.ms": 100,
            "fetch.error.backoff.ms": 100,
            "fetch.queue.backoff.ms": 5,
            "reconnect.backoff.max.ms": 2_000,
            **source.config,
            "bootstrap.servers": source.brokers,
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "allow.auto.create.topics": False,
            "error_cb": self._note_error,
            "on_commit": self._note_commit,
        }
        try:
            self._consumer = Consumer(config, logger=_LOG)
        except KafkaException as problem:
            raise self.error(problem) from problem

    def error(self, problem: KafkaError | KafkaException) -> PSoupError:
        """Convert an error of Kafka to one of the SDK."""
        return error_of(problem, self._source.brokers, self._source.topic, self._trouble)

    def partitions(self, seconds: float = CALL_SECONDS) -> list[int]:
        """The partitions of the topic, ascending. Raises NotFound for a topic that is not there."""
        try:
            topic = self._consumer.list_topics(self._source.topic, timeout=seconds).topics[self._source.topic]
        except KafkaException as problem:
            self._consumer.poll(0)  # a refused login comes by the callback
            raise self.error(self._denied or problem) from problem
        if topic.error is not None:
            raise self.error(topic.error)
        self.away_since = None
        return sorted(topic.partitions)

    def offsets(self, partition: int) -> tuple[int, int]:
        """The first offset that Kafka has, and the offset behind the last record."""
        try:
            low, high = self._consumer.get_watermark_offsets(self._at(partition), timeout=CALL_SECONDS)
        except KafkaException as problem:
            raise self.error(problem) from problem
        return low, high

    def end(self, partition: int) -> int | None:
        """The end as the last fetch told it, without a question to the brokers. None before the first fetch."""
        high = self._consumer.get_watermark_offsets(self._at(partition), cached=True)[1]
        return high if high >= 0 else None

    def assign(self, offsets: Mapping[int, int]) -> None:
        """Read these partitions from now on, each from its offset."""
        self._consumer.assign([self._at(partition, offset) for partition, offset in offsets.items()])

    def peek(self, offsets: Mapping[int, int]) -> list[Message]:
        """The first record of each partition from an offset on, as far as there is one. Ends the assignment."""
        self.assign(offsets)
        result, waiting = list[Message](), set(offsets)
        last = time.monotonic() + CALL_SECONDS
        while waiting and time.monotonic() < last:
            messages, ends, lost = self.read(0.1)
            first = {int(message.partition() or 0): message for message in reversed(messages)}
            result += [message for number, message in first.items() if number in waiting]
            waiting -= {*first, *ends, *lost}
        if waiting:
            raise self.away()
        return result

    def away(self) -> PSoupError:
        """The error for brokers that have not answered for too long."""
        return self.error(KafkaError(KafkaError._ALL_BROKERS_DOWN))

    def read(self, seconds: float) -> tuple[list[Message], dict[int, int], list[int]]:
        """Wait for records. Returns them, the ends that were reached by partition, and partitions without their offset.

        Raises NotFound if the topic is gone, and AccessDenied.
        """
        first = self._consumer.consume(1, seconds)
        messages = first + self._consumer.consume(MOST_RECORDS, self._gather) if first else first
        self._gather = BACKLOG_SECONDS if len(messages) >= MANY_RECORDS else GATHER_SECONDS
        if self._denied is not None:
            raise self.error(self._denied)
        if messages:
            self.away_since = None
        if not any(map(Message.error, messages)):
            return messages, {}, []
        problems = [message for message in messages if message.error() is not None]
        return [message for message in messages if message.error() is None], *self._sorted(problems)

    def _sorted(self, problems: Sequence[Message]) -> tuple[dict[int, int], list[int]]:
        ends, lost = dict[int, int](), list[int]()
        for message in problems:
            error, partition = message.error(), message.partition()
            assert error is not None
            if error.code() == KafkaError._PARTITION_EOF and partition is not None:
                ends[partition] = int(message.offset() or 0)
            elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                lost.append(int(partition or 0))
            elif error.code() in NO_TOPIC or is_denied(error) or error.fatal():
                raise self.error(error)
            elif not error.retriable():
                self._note_error(error)
        return ends, lost

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Tell the group the offsets, without waiting. A failure is only noted: the service has the positions."""
        self.committed = False
        try:
            self._consumer.commit(offsets=[self._at(*pair) for pair in offsets.items()], asynchronous=True)
        except KafkaException as problem:
            self.commit_problem = str(problem.args[0].str())

    def settle(self, seconds: float) -> None:
        """Wait until the last commit has its reply, at most so many seconds. Reads no record."""
        last = time.monotonic() + seconds
        self._consumer.unassign()
        while not (self.committed or self.commit_problem) and time.monotonic() < last:
            self._consumer.poll(0.05)

    def group_offsets(self, partitions: Sequence[int]) -> dict[int, int]:
        """The offsets that the consumer group has. Empty if it has none, or may not be asked."""
        try:
            listed = self._consumer.committed([self._at(number) for number in partitions], timeout=CALL_SECONDS)
        except KafkaException:
            return {}
        return {each.partition: each.offset for each in listed if each.error is None and each.offset >= 0}

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()

    def _at(self, partition: int, offset: int | None = None) -> TopicPartition:
        if offset is None:
            return TopicPartition(self._source.topic, partition)
        return TopicPartition(self._source.topic, partition, offset)

    def _note_error(self, error: KafkaError) -> None:
        """Note an error of a connection. librdkafka connects again by itself, except after a refused login."""
        if is_denied(error):
            self._denied = error
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.away_since = self.away_since or time.monotonic()
        else:
            self._trouble = error.str()

    def _note_commit(self, error: KafkaError | None, _: list[TopicPartition]) -> None:
        self.committed = True
        if error is not None:
            self.commit_problem = error.str()
