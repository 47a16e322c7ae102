"""A feed of a topic goes back by itself if a takeover has lost records that were acknowledged."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from psoup_client import Client
from psoup_testing.services.kafka import MockKafka
from psoup_testing.services.kafka_feeds import count, make_feed, numbers, rows
from psoup_testing.services.takeover import PATIENT, Takeover


@pytest.mark.long
@pytest.mark.seeded("a feed that ends when batches are lost")
def test_a_feed_goes_back_after_a_takeover(kafka: MockKafka, tmp_path: Path) -> None:
    topic = kafka.topic()
    with ExitStack() as opened:
        takeover = Takeover(tmp_path, opened)
        client = opened.enter_context(Client(takeover.addresses, timeout=300, options=PATIENT))
        client.create_stream("CREATE STREAM s (n BIGINT)")

        def produced(first: int, stop: int) -> None:
            """Write records, and wait until the stream has all up to there."""
            kafka.produce(topic, numbers(first, stop))
            while count(client, "s") != stop:
                assert running.is_alive()

        kafka.produce(topic, numbers(0, 1))
        feed = make_feed(client, kafka.brokers, topic, "s", until_end=False, patience=300.0)
        running = threading.Thread(target=feed.run)
        running.start()
        try:
            produced(1, 10)
            takeover.copied()
            produced(10, 20)
            takeover.happen()
            produced(20, 30)
        finally:
            feed.stop()
            running.join()
        assert rows(client, "s", "n") == [(n,) for n in range(30)]
