"""Feeds from mock brokers while something changes: partitions, another feed, the lag."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from psoup_client import Client, FailedPrecondition, PSoupError
from psoup_kafka import FeedOptions, Figures, KafkaSource, lags_now
from psoup_kafka.cluster import Cluster
from psoup_testing.services.kafka import PARTITIONS, MockKafka
from psoup_testing.services.kafka_feeds import count, feed, make_feed, numbers, rows

MakeStream = Callable[[str], str]


class Running:
    """A feed on a thread. `failed`: the error that ended it."""

    def __init__(self, client: Client, brokers: str, topic: str, stream: str, **more: Any) -> None:
        self.reads = threading.Semaphore(0)
        self.failed: BaseException | None = None
        self.figures = Figures()
        self._feed = make_feed(client, brokers, topic, stream, until_end=False, tell=self._told, **more)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _told(self, _: object) -> None:
        self.reads.release()

    def _run(self) -> None:
        try:
            self.figures = self._feed.run()
        except PSoupError as problem:
            self.failed = problem

    def begun(self) -> None:
        """Wait for the first read."""
        assert self.reads.acquire(timeout=60)

    def until(self, done: Callable[[], bool]) -> None:
        """Wait until a condition holds, which is looked at after each read."""
        while not done():
            self.begun()

    @property
    def goes(self) -> bool:
        return self._thread.is_alive()

    def ended(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()

    def stop(self) -> Figures:
        self._feed.stop()
        self.ended()
        return self.figures


@pytest.mark.long
@pytest.mark.seeded("partitions that are added while the feed runs are read from the end")
def test_partitions_that_are_added_are_read_from_their_first_record(
    client: Client, make_stream: MakeStream, kafka: MockKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, topic = make_stream("(n BIGINT)"), kafka.topic()
    kafka.produce(topic, numbers(0, 3))
    visible, ask = [1], Cluster.partitions
    monkeypatch.setattr(Cluster, "partitions", lambda self, *more: ask(self, *more)[: visible[0]])
    going = Running(client, kafka.brokers, topic, stream, start="latest", refresh=0.0)
    going.begun()
    kafka.produce(topic, numbers(3, 5), partition=2)
    visible[0] = PARTITIONS  # the mock brokers cannot add partitions
    going.until(lambda: count(client, stream) == 2)
    kafka.produce(topic, numbers(5, 6))
    going.until(lambda: count(client, stream) == 3)
    assert going.stop().rows == 3
    assert sorted(rows(client, stream, "n")) == [(3,), (4,), (5,)]


@pytest.mark.long
def test_of_two_feeds_of_one_name_the_later_one_goes_on(
    client: Client, make_stream: MakeStream, kafka: MockKafka
) -> None:
    stream, topic = make_stream("(n BIGINT)"), kafka.topic()
    kafka.produce(topic, numbers(0, 1))
    first = Running(client, kafka.brokers, topic, stream)
    first.begun()
    first.until(lambda: count(client, stream) == 1)
    second = Running(client, kafka.brokers, topic, stream)
    second.begun()
    number = 1
    while first.goes:  # it may take the first of them, and is refused after the other one has begun anew
        kafka.produce(topic, numbers(number, number + 1))
        number += 1
        second.until(lambda: count(client, stream) == number)  # noqa: B023 - called at once
    first.ended()
    assert isinstance(first.failed, FailedPrecondition) and first.failed.reason == "FEED_REPLACED"
    assert "Run one feed for a topic and a stream" in first.failed.message
    kafka.produce(topic, numbers(number, 100))
    second.until(lambda: count(client, stream) == 100)
    second.stop()
    assert second.failed is None
    assert [n for (n,) in rows(client, stream, "n")] == list(range(100))


def test_the_group_and_the_status_tell_the_lag(client: Client, make_stream: MakeStream, kafka: MockKafka) -> None:
    stream, topic = make_stream("(n BIGINT)"), kafka.topic()
    kafka.produce(topic, numbers(0, 5))
    source = KafkaSource(topic, kafka.brokers)
    assert [(each.recorded, each.lag) for each in lags_now(client, stream, source)] == [(None, None)] * PARTITIONS
    feed(client, kafka.brokers, topic, stream)
    kafka.produce(topic, numbers(5, 8))
    lags = lags_now(client, stream, source)
    assert [(each.recorded, each.end, each.lag) for each in lags] == [(5, 8, 3), *[(0, 0, 0)] * (PARTITIONS - 1)]
    consumer = Consumer({"bootstrap.servers": kafka.brokers, "group.id": f"psoup-{stream}-{topic}"})
    assert consumer.committed([TopicPartition(topic, 0)], timeout=60)[0].offset == 5
    consumer.close()


def test_options_have_a_default() -> None:
    assert FeedOptions().start is None and not FeedOptions().until_end


@pytest.mark.long
def test_rows_that_are_too_late_are_counted(client: Client, make_stream: MakeStream, kafka: MockKafka) -> None:
    stream, topic = make_stream("(at TIMESTAMP) TIMESTAMP BY at LATENESS INTERVAL '1' MINUTE"), kafka.topic()
    kafka.produce(topic, ['{"at":"2026-01-01T12:00:00Z"}'])
    feed(client, kafka.brokers, topic, stream)
    kafka.produce(topic, ['{"at":"2026-01-01T11:00:00Z"}', '{"at":"2026-01-01T12:01:00Z"}'])
    figures = feed(client, kafka.brokers, topic, stream)
    assert (figures.rows, figures.late, figures.lag) == (1, 1, 0)
