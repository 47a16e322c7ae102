"""The cluster of mock brokers that all tests of a process share."""

from collections.abc import Iterator

import pytest

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed (the extra psoup[kafka])")

from psoup_testing.services.kafka import MockKafka


@pytest.fixture(scope="session")
def kafka() -> Iterator[MockKafka]:
    """The cluster. Each test takes a topic of its own."""
    cluster = MockKafka()
    yield cluster
    cluster.close()
