"""`psoup kafka feed` as users run it: options, messages and exit codes; in this process, and as one of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from psoup_cli.commands.kafka.progress import Line, meter
from psoup_client import Client, InvalidRequest
from psoup_kafka import Figures, KafkaSource, PartitionLag, divide, read_config
from psoup_testing.services.command import Psoup
from psoup_testing.services.kafka import MockKafka
from psoup_testing.services.kafka_feeds import count, rows
from psoup_testing.services.reply_wait import asked_until
from psoup_testing.services.threaded_service import Serving


@pytest.fixture
def made(client: Client, make_stream: object, kafka: MockKafka) -> tuple[str, str]:
    """A stream, and a topic with three records."""
    assert callable(make_stream)
    topic = kafka.topic()
    kafka.produce(topic, ['{"n":1}', '{"n":2}', '{"n":3}'])
    return make_stream("(n BIGINT)"), topic


def test_a_feed_up_to_the_end_and_its_status(
    psoup: Psoup, client: Client, kafka: MockKafka, made: tuple[str, str], tmp_path: Path
) -> None:
    stream, topic = made
    command = ("kafka", "feed", stream, "--topic", topic, "--brokers", kafka.brokers)
    before = psoup(*command, "--status")
    assert (before.code, before.out.splitlines()[0]) == (0, "partition 0: no position, end 3")
    ran = psoup(*command, "--until-end")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.splitlines() == [
        f"Feeding stream {stream} from topic {topic} of {kafka.brokers}.",
        "3 rows taken; no lag.",
    ]
    kafka.produce(topic, ["no", '{"n":4,"x":1}'])
    ran = psoup(*command, "--until-end")
    assert ran.code == 1 and f"psoup: the record at offset 3 of partition 0, topic '{topic}', does not fit" in ran.err
    ran = psoup(*command, "--until-end", "--quarantine", str(tmp_path / "bad"), "--ignore-extra", "--json")
    assert (ran.code, ran.rows) == (6, [{"rows": 1, "set_aside": 1, "late": 0, "ahead": 0, "lag": 0}])
    kafka.produce(topic, ['{"n":5}'])
    assert psoup(*command, "--status").out.splitlines()[0] == "partition 0: position 5, end 6, 1 behind"
    assert psoup(*command, "--status", "--json").rows[0] == {"partition": 0, "position": 5, "end": 6, "lag": 1}
    assert rows(client, stream, "n") == [(1,), (2,), (3,), (4,)]


def test_wrong_options_say_what_is_right(psoup: Psoup, kafka: MockKafka, made: tuple[str, str], tmp_path: Path) -> None:
    stream, topic = made
    command = ("kafka", "feed", stream, "--topic", topic, "--brokers", kafka.brokers, "--until-end")
    file = tmp_path / "client.properties"
    file.write_text("no setting\n")
    for options, code, said in (
        (("--from", "yesterday"), 2, "--from 'yesterday': give earliest, latest or an offset"),
        (("--format", "avro"), 2, "--format avro needs --schema-registry URL"),
        (("--schema-registry", "http://r:1"), 2, "--schema-registry is for --format avro"),
        (("--kafka-config", "x"), 2, "--kafka-config 'x' is not of the form KEY=VALUE"),
        (("--kafka-config", "bootstrap.servers=x"), 1, "the feed sets it itself; give --brokers"),
        (("--kafka-config-file", str(file)), 1, "client.properties, line 1: it is not of the form NAME=VALUE"),
        (("--kafka-config-file", str(tmp_path / "none")), 1, "none: No such file or directory"),
        (("--key-column", "k"), 1, "--key-column k: stream"),
        (("--topic", "nowhere"), 4, "has no topic 'nowhere'"),
    ):
        ran = psoup(*command, *options)
        assert (ran.code, said in " ".join(ran.err.split())) == (code, True), ran.err
    assert psoup("kafka", "feed", "nothing", "--topic", topic, "--brokers", kafka.brokers).code == 4


def test_settings_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# of the team\n\nsecurity.protocol = SASL_SSL\nsasl.password=a=b \nschema.registry.url=http://r\n")
    kafka, registry = divide(read_config(file))
    assert kafka == {"security.protocol": "SASL_SSL", "sasl.password": "a=b"} and registry == {"url": "http://r"}
    source = KafkaSource("t", "b", {"group.id": "g"})
    assert (source.producer(3), source.group("s"), KafkaSource("t", "b").group("s")) == ("kafka t/3", "g", "psoup-s-t")
    with pytest.raises(InvalidRequest):
        KafkaSource("t", "b", {"enable.auto.commit": "true"})
    for topic, brokers, empty in ((" ", "b", "--topic"), ("t", "", "--brokers"), ("t", " , ", "--brokers")):
        with pytest.raises(InvalidRequest, match=f"{empty} is empty"):
            KafkaSource(topic, brokers)
    file.write_bytes(b"a=b\nsasl.password=\xfc\n")
    with pytest.raises(InvalidRequest, match="line 2: it is not UTF-8"):
        read_config(file)


def test_the_line_tells_rate_and_lag() -> None:
    line = Line("orders")
    assert line.text(Figures(10, seconds=2.0, lags=(PartitionLag(0, 5, 5),))) == "orders: 10 rows, 5 rows/s, no lag"
    lags = tuple(PartitionLag(number, 0, number * 1_000) for number in range(7))
    text = line.text(Figures(1_010, 2, 3, 1, lags, 12.0, "waiting for the brokers of Kafka"))
    assert text == (
        "orders: 1,010 rows, 100 rows/s, 21,000 records behind (partition 6: 6,000, partition 5: 5,000, partition 4:"
        " 4,000, partition 3: 3,000, 2 more), 2 set aside, 3 too late, 1 too far ahead, waiting for the brokers of"
        " Kafka"
    )


def test_without_a_terminal_there_is_a_line_each_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("psoup_cli.commands.kafka.progress.TOLD_SECONDS", 0.0)
    with meter("s") as tell:
        for figures in (Figures(), Figures(), Figures(lags=(PartitionLag(0, 0, 1),)), Figures(1, seconds=1)):
            tell(lambda now=figures: now)  # type: ignore[misc]
    said = [line.partition(", ")[2].partition(", ")[2] for line in capsys.readouterr().err.splitlines()]
    assert said == ["no lag.", "1 record behind (partition 0: 1).", "no lag."]


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_feed_with_all_batches_acknowledged(
    running: Serving, client: Client, kafka: MockKafka, made: tuple[str, str], number: signal.Signals
) -> None:
    stream, topic = made
    command = [sys.executable, "-m", "psoup_cli.main", "kafka", "feed", stream, "--topic", topic]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PSOUP_ADDRESS": running.address}
    process = subprocess.Popen([*command, "--brokers", kafka.brokers], env=environ, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("Feeding stream")
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 0, said
    taken = int(said.split(" ")[0])
    asked_until(lambda: count(client, stream), lambda rows: rows == taken)


@pytest.mark.long
def test_brokers_that_are_not_there(psoup: Psoup, made: tuple[str, str]) -> None:
    stream, topic = made
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # no process listens
        brokers = f"127.0.0.1:{taken.getsockname()[1]}"
        ran = psoup("kafka", "feed", stream, "--topic", topic, "--brokers", brokers)
    assert ran.code == 3
    assert f"no broker of {brokers} answers (" in ran.err and "Connection refused" in ran.err
