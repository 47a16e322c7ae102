"""kill -9 of a feed from Kafka, of the service and of the brokers: each record is in the stream or set aside, once.

    Kafka          records 0, 1, 2 …        stopped and continued, killed
    psoup kafka    batches, quarantine      killed, started
    PSoup          rows, positions          killed, started

Each seventh record does not fit, and goes to the quarantine.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed (the extra psoup[kafka])")

from psoup_client import Client
from psoup_testing.oracles.questions import again
from psoup_testing.services.kafka import PARTITIONS, KafkaProcess
from psoup_testing.services.kafka_feeds import lines
from psoup_testing.services.zygote import Zygote
from psoup_testing.suite.budget import SCALE, SEED, replayable

pytestmark = pytest.mark.long
KILLS = max(6, round(12 * SCALE))
BAD = 7


def start_feed(address: str, brokers: str, folder: Path, *options: str) -> subprocess.Popen[str]:
    """A feed in a process of its own."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PSOUP_ADDRESS": address}
    command = [sys.executable, "-m", "psoup_cli.main", "kafka", "feed", "s", "--topic", "t", "--brokers", brokers]
    arguments = [*command, "--quarantine", str(folder), *options]
    return subprocess.Popen(arguments, env=environ, stderr=subprocess.PIPE, text=True)


def heard(feed: subprocess.Popen[str]) -> str:
    assert feed.stderr is not None
    return feed.stderr.readline()


class Topic:
    """A topic that grows. `count`: the number of records so far."""

    def __init__(self, kafka: KafkaProcess, chance: random.Random) -> None:
        self.count = 0
        self._kafka = kafka
        self._chance = chance

    def write(self) -> None:
        """Write some records into each partition."""
        for partition in range(PARTITIONS):
            some = range(self.count, self.count + self._chance.randrange(1, 500))
            values = ["no" if n % BAD == 0 else f'{{"n":{n}}}' for n in some]
            self._kafka.produce("t", values, partition)
            self.count = some.stop


def test_each_record_is_taken_once_whatever_is_killed(tmp_path: Path) -> None:
    chance, data, folder = random.Random(SEED), str(tmp_path / "data"), tmp_path / "bad"
    with replayable(SEED), KafkaProcess() as kafka, Zygote(PSOUP_TEST_CHUNK_ROWS="64") as zygote:
        zygote.start(data)
        address = zygote.ready()
        port = int(address.rpartition(":")[2])
        with Client(address, timeout=60) as client:
            client.create_stream("CREATE STREAM s (n BIGINT)")
        topic = Topic(kafka, chance)
        topic.write()
        feed = start_feed(address, kafka.brokers, folder)
        for _ in range(KILLS):
            assert heard(feed).startswith("Feeding")
            topic.write()
            victim = chance.choice(["feed", "service", "both", "brokers"])
            if victim == "brokers":
                kafka.process.send_signal(signal.SIGSTOP)
                kafka.process.send_signal(signal.SIGCONT)
            if victim in ("service", "both"):
                assert zygote.kill() == 9
                zygote.start(data, port)
                assert zygote.ready() == address
            if victim == "service":  # the feed goes on by itself
                topic.write()
            feed.kill()
            feed.communicate()
            feed = start_feed(address, kafka.brokers, folder)
        feed.kill()
        feed.communicate()
        last = start_feed(address, kafka.brokers, folder, "--until-end")
        said = last.communicate()[1]
        assert last.returncode in (0, 6), said
        check_all(address, folder, topic.count)
        assert zygote.stop() == 0


def check_all(address: str, folder: Path, count: int) -> None:
    """Check that each record is in the stream or in the quarantine, once."""
    with Client(address, timeout=60) as client:
        taken = again(client.ask, "SELECT n FROM s BEGIN (START)").to_arrow()["n"].to_pylist()
    assert sorted(taken) == [n for n in range(count) if n % BAD]
    places = [(line["partition"], line["offset"]) for line in lines(folder)]
    assert len(places) == len(set(places)) == len(range(0, count, BAD))


def test_brokers_that_go_away_end_the_feed_after_its_patience(tmp_path: Path) -> None:
    with KafkaProcess() as kafka, Zygote() as zygote:
        zygote.start(str(tmp_path / "data"))
        address = zygote.ready()
        with Client(address, timeout=60) as client:
            client.create_stream("CREATE STREAM s (n BIGINT)")
        kafka.produce("t", ['{"n":1}'])
        feed = start_feed(address, kafka.brokers, tmp_path / "bad", "--patience", "1")
        assert heard(feed).startswith("Feeding")
        kafka.process.kill()
        said = feed.communicate(timeout=60)[1]
        assert feed.returncode == 3 and f"no broker of {kafka.brokers} answers" in said
        assert zygote.stop() == 0
