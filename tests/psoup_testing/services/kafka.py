"""A cluster of Kafka for tests: the mock brokers of librdkafka, which speak Kafka's protocol on real sockets.

    test ── produce ──> mock brokers, 4 partitions a topic <── fetch ── psoup kafka, of this process or another

The mock brokers create a topic at its first record. They keep 5 MiB of each partition and remove older records. They
know neither deletion of topics nor new partitions: a second cluster stands for a topic that was made anew. Run as a
module it is a cluster in a process of its own, which can be killed: it prints its address and reads commands.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterable
from types import TracebackType

from confluent_kafka import Producer

PARTITIONS = 4
"""The partitions of each topic."""

_topics = itertools.count(1)


class MockKafka:
    """A cluster in this process; it ends with the object's `close`. `brokers`: its address, for any process."""

    def __init__(self) -> None:
        self._cluster = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0})
        brokers = self._cluster.list_topics(timeout=60).brokers.values()
        self.brokers = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
        self._producer = Producer({"bootstrap.servers": self.brokers, "linger.ms": 1, "log_level": 0, **LARGE})

    def topic(self) -> str:
        """A new name."""
        return f"topic{next(_topics)}"

    def produce(
        self,
        topic: str,
        values: Iterable[bytes | str | None],
        partition: int = 0,
        key: bytes | str | None = None,
        time: int = 0,
    ) -> None:
        """Write records, and wait until the brokers have them. `time`: milliseconds since 1970, 0 for now."""
        failed = list[str]()
        for value in values:
            self._producer.produce(
                topic,
                value=value,
                key=key,
                partition=partition,
                timestamp=time,
                on_delivery=lambda error, _: failed.append(str(error)) if error else None,
            )
            self._producer.poll(0)
        self._producer.flush(30)
        assert not failed, failed[0]

    def close(self) -> None:
        """End the brokers. Later calls to them are refused."""
        self._producer.purge()
        del self._producer, self._cluster


LARGE = {"compression.type": "lz4", "message.max.bytes": 64 * 1024 * 1024, "queue.buffering.max.messages": 1_000_000}


class KafkaProcess:
    """A cluster in a process of its own, for tests that kill the brokers."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "psoup_testing.services.kafka"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
        )
        self.brokers = self._hear()

    def __enter__(self) -> KafkaProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self.process.kill()
        self.process.communicate()

    def produce(self, topic: str, values: Iterable[str], partition: int = 0) -> None:
        """Write records, and wait until the brokers have them."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([topic, list(values), partition]) + "\n")
        self.process.stdin.flush()
        assert self._hear() == "done"

    def _hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


def _main() -> None:
    cluster = MockKafka()
    print(cluster.brokers, flush=True)
    for line in sys.stdin:
        topic, values, partition = json.loads(line)
        cluster.produce(topic, values, partition)
        print("done", flush=True)


if __name__ == "__main__":
    _main()
