"""Row `kafka`: records of a topic of Kafka in JSON, until they are in a stream of a durable service.

    mock brokers ── 4 partitions ──> psoup_kafka ──> service     to the last reply
    a producer ── the same rows as dicts ──────────> service     to the last reply

The mock brokers come with librdkafka, and have a process of their own. They have all records when the clock starts. The
rows of the producer are dicts of Python values, so it reads no JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target, seconds
from benchmarks.tool.run import Run
from psoup_client import Client

COUNT, PARTITIONS = 500_000, 4
BATCH = 10_000
"""The rows of a batch of the producer."""
CREATE = "CREATE STREAM {} (id BIGINT, symbol TEXT, price DOUBLE, at TIMESTAMP) RETENTION 65536 ROWS"
LINE = '{"id":%d,"symbol":"S%04d","price":%d.%02d,"at":"2026-07-01T%02d:%02d:%02dZ"}'
BROKERS = """
import sys
from confluent_kafka import Producer
cluster = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0})
print(*(f"{broker.host}:{broker.port}" for broker in cluster.list_topics(timeout=20).brokers.values()), flush=True)
sys.stdin.read()
"""


def rows(run: Run) -> Iterator[Row]:
    """Records a second. No row where confluent-kafka is not installed."""
    try:
        import confluent_kafka  # noqa: F401
    except ImportError:
        return
    count, samples = run.of(COUNT, COUNT, 2_000), run.of(3, 3, 1)
    lines = [LINE % (n, n % 5_000, n % 1_000, n % 100, n // 3_600 % 24, n // 60 % 60, n % 60) for n in range(count)]
    with _brokers() as brokers, processes.service(durable=True) as address, Client(address) as client:
        _produce(brokers, lines)
        dicts: list[dict[str, Any]] = [json.loads(line) for line in lines]
        rounds = [_round(client, brokers, dicts, number) for number in range(samples + 1)]
    ours, theirs = (Sample.of([count / took for took in both]) for both in zip(*rounds[1:], strict=True))
    note = f"JSON of {count:,} records of 4 fields in {PARTITIONS} partitions"
    yield Row("kafka", ours, "records/s", "the same rows by an SDK producer", theirs, Target(at_least=0.6), note)


@contextmanager
def _brokers() -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", BROKERS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.communicate("")


def _produce(brokers: str, lines: list[str]) -> None:
    """Write the records, compressed, because the mock brokers keep 5 MiB of a partition."""
    from confluent_kafka import Producer

    settings: dict[str, Any] = {"queue.buffering.max.messages": COUNT * 2, "linger.ms": 500, "compression.type": "lz4"}
    settings |= {"batch.num.messages": COUNT, "batch.size": 1024 * 1024}  # as much as a fetch of a partition
    producer = Producer({"bootstrap.servers": brokers, **settings})
    for number, line in enumerate(lines):
        producer.produce("records", value=line, partition=number % PARTITIONS)
    producer.flush()


def _round(client: Client, brokers: str, dicts: list[dict[str, Any]], number: int) -> tuple[float, float]:
    """The seconds of the feed and of the producer, each into a stream of its own."""
    from psoup_cli.files.header import FieldNames, HeaderRules
    from psoup_kafka import FeedOptions, KafkaSource, Target, TopicFeed

    ours, theirs = f"fed{number}", f"pushed{number}"
    for name in (ours, theirs):
        client.create_stream(CREATE.format(name))
    info = client.describe(ours)
    goal = Target(info, FieldNames(info, HeaderRules()))
    feed = TopicFeed(client, KafkaSource("records", brokers), goal, FeedOptions(until_end=True))
    took = seconds(feed.run), seconds(lambda: _push(client, theirs, dicts))
    fed, pushed = feed.figures().rows, client.describe(theirs).next_tuple_id
    if fed != len(dicts) or pushed != len(dicts) or client.describe(ours).next_tuple_id != fed:
        raise AssertionError(f"{fed} records were fed, and {pushed} rows pushed, of {len(dicts)}")
    return took


def _push(client: Client, stream: str, dicts: list[dict[str, Any]]) -> None:
    with client.producer(stream) as producer:
        for first in range(0, len(dicts), BATCH):
            producer.push(dicts[first : first + BATCH])
