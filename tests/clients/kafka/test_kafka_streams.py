"""Feeds of streams from mock brokers: each record once, whatever happens between two starts."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from psoup_cli.files.header import HeaderRules
from psoup_client import Client, FailedPrecondition, InvalidData, InvalidRequest, NotFound, OutOfRange
from psoup_kafka import KafkaSource, Quarantine
from psoup_kafka.cluster import Cluster
from psoup_testing.services.kafka import PARTITIONS, MockKafka
from psoup_testing.services.kafka_feeds import feed, lines, numbers, place, rows
from psoup_testing.suite.sweeps import swept

MakeStream = Callable[[str], str]


def test_each_record_is_in_once_over_many_starts(client: Client, make_stream: MakeStream, kafka: MockKafka) -> None:
    stream, topic = make_stream("(n BIGINT)"), kafka.topic()
    kafka.produce(topic, numbers(0, 50))
    assert feed(client, kafka.brokers, topic, stream).rows == 50
    assert feed(client, kafka.brokers, topic, stream).rows == 0
    kafka.produce(topic, numbers(50, 60))
    kafka.produce(topic, numbers(60, 70), partition=3)
    figures = feed(client, kafka.brokers, topic, stream)
    assert (figures.rows, figures.lag, len(figures.lags)) == (20, 0, PARTITIONS)
    assert sorted(rows(client, stream, "n")) == [(n,) for n in range(70)]
    assert [place(client, stream, topic, n).next for n in range(PARTITIONS)] == [60, 0, 0, 10]


def test_facts_about_a_record_get_columns(client: Client, make_stream: MakeStream, kafka: MockKafka) -> None:
    stream = make_stream("(n BIGINT, k TEXT, id BIGINT, at TIMESTAMP, part BIGINT, off BIGINT) TIMESTAMP BY at")
    topic, columns = kafka.topic(), {"key": "k", "timestamp": "at", "partition": "part", "offset": "off"}
    kafka.produce(topic, ['{"n":1,"k":"of the value"}', '{"n":2}'], partition=2, key="é", time=1_767_225_600_123)
    assert feed(client, kafka.brokers, topic, stream, columns=columns).rows == 2
    at = dt.datetime(2026, 1, 1, 0, 0, 0, 123_000, dt.UTC)
    assert rows(client, stream, "n, k, at, part, off") == [(1, "é", at, 2, 0), (2, "é", at, 2, 1)]
    kafka.produce(topic, ['{"n":3}'], partition=1, key="17", time=1_767_225_600_124)
    assert feed(client, kafka.brokers, topic, stream, columns={"key": "id", "timestamp": "at"}).rows == 1
    assert rows(client, stream, "n, id")[-1] == (3, 17)
    with pytest.raises(InvalidData, match=r"--key-column q: stream '\w+' has no such column, only n, k"):
        feed(client, kafka.brokers, topic, stream, columns={"key": "q"})


BAD: list[tuple[Any, str]] = [
    (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
    (b'{"n":' + b'{"a":' * 5_000 + b"1" + b"}" * 5_001, "nested too deeply|an object|does not fit"),
    (b'{"n":1,"t":"\xff"}', "is not utf-8"),
    (None, "it has no value (a tombstone)"),
    (b"", "it is not valid JSON"),
    (b'{"t":"x"}', "'n' is NULL, but the stream says NOT NULL"),
    (b"{}", "'n' is NULL"),
    (b'{"n":"one"}', "'one' in column 'n' does not fit BIGINT"),
    (b'{"n":1.5}', "in column 'n' does not fit BIGINT"),
    (b'{"n":99999999999999999999}', "64 bits"),
    (b'{"n":true}', "does not fit BIGINT"),
    (b'{"n":1,"t":{"a":1}}', "column 't' does not fit TEXT"),
    (b'{"n":1,"t":[1]}', "column 't' does not fit TEXT"),
    (b'{"n":1,"d":1.005}', "column 'd' does not fit DECIMAL"),
    (b'{"n":1,"extra":2}', "has no column 'extra'"),
    (b'{"n":1,"n":2}', "comes twice"),
    (b'{"n":1}{"n":2}', "it is not valid JSON: Extra data"),
    (b'{"n":1}\n{"n":2}', "it is not valid JSON: Extra data"),
    (b"[1]", "it is an array"),
    (b"7", "it is a number"),
    (b'{"n":1,"at":"yesterday"}', "not a valid TIMESTAMP"),
    (b'{"n":1,"t":"\\ud800"}', "column 't'"),
]


def test_records_that_do_not_fit_are_set_aside_with_the_reason(
    client: Client, make_stream: MakeStream, kafka: MockKafka, tmp_path: Path
) -> None:
    stream, topic = make_stream("(n BIGINT NOT NULL, t TEXT, d DECIMAL(9,2), at TIMESTAMP)"), kafka.topic()
    kafka.produce(topic, ['{"n":0}'])
    for value, _ in BAD:
        kafka.produce(topic, [value, '{"n":1,"t":"ok"}'], key=b"\xfe" if value == b"7" else "k")
    figures = feed(client, kafka.brokers, topic, stream, quarantine=tmp_path)
    assert (figures.rows, figures.poison) == (1 + len(BAD), len(BAD))
    written = lines(tmp_path)
    assert [line["offset"] for line in written] == [1 + 2 * place for place in range(len(BAD))]
    for line, (value, reason) in zip(written, BAD, strict=True):
        assert any(each in line["reason"] for each in reason.split("|")), (value, line["reason"])
    assert written[3]["value"] is None and written[3]["key"] == "k"
    assert "value_base64" in written[2] and "key_base64" in written[19]
    assert feed(client, kafka.brokers, topic, stream, quarantine=tmp_path).poison == 0
    assert len(lines(tmp_path)) == len(BAD)


def test_keys_and_timestamps_that_do_not_fit_their_columns_are_set_aside(
    client: Client, make_stream: MakeStream, kafka: MockKafka, tmp_path: Path
) -> None:
    stream, topic = make_stream("(n BIGINT, id BIGINT, at TIMESTAMP)"), kafka.topic()
    kafka.produce(topic, ['{"n":1}'], key="99999999999999999999")
    kafka.produce(topic, ['{"n":2}'], key="7", time=2**62)
    kafka.produce(topic, ['{"n":3}'], key="8", time=1_767_225_600_123)
    figures = feed(client, kafka.brokers, topic, stream, columns={"key": "id", "timestamp": "at"}, quarantine=tmp_path)
    assert (figures.rows, figures.poison) == (1, 2)
    assert rows(client, stream, "n, id") == [(3, 8)]
    large, late = (line["reason"] for line in lines(tmp_path))
    assert "64 bits" in large
    assert "its timestamp, 4611686018427387904 ms since 1970, does not fit TIMESTAMP" in late


@pytest.mark.long
def test_a_record_of_20_mib_is_set_aside_or_taken(
    client: Client, make_stream: MakeStream, kafka: MockKafka, tmp_path: Path
) -> None:
    stream, topic = make_stream("(n BIGINT, t TEXT)"), kafka.topic()
    text = "x" * (20 * 1024 * 1024)
    kafka.produce(topic, [f'{{"n":1,"t":"{text}"}}', '{"n":2}', '{"n":' + " " * len(text) + "3}"])
    figures = feed(client, kafka.brokers, topic, stream, quarantine=tmp_path)
    assert (figures.rows, figures.poison) == (2, 1)
    assert rows(client, stream, "n") == [(2,), (3,)]
    [line] = lines(tmp_path)
    assert "the text in column 't' has 20,971,520 bytes" in line["reason"] and text in line["value"]


def test_without_quarantine_the_first_such_record_ends_the_feed(
    client: Client, make_stream: MakeStream, kafka: MockKafka, tmp_path: Path
) -> None:
    stream, topic = make_stream("(n BIGINT)"), kafka.topic()
    kafka.produce(topic, ['{"n":1}', '{"n":2}', "no", '{"n":3}'], partition=1)
    for _ in range(2):
        with pytest.raises(InvalidData) as raised:
            feed(client, kafka.brokers, topic, stream)
        assert raised.value.message.startswith(f"the record at offset 2 of partition 1, topic '{topic}', does not fit")
        assert "--quarantine DIR" in raised.value.message
        assert rows(client, stream, "n") == [(1,), (2,)]
        assert place(client, stream, topic, 1).next == 2
    assert feed(client, kafka.brokers, topic, stream, quarantine=tmp_path).rows == 1


def test_lines_of_a_batch_that_was_not_taken_are_removed(
    client: Client, make_stream: MakeStream, kafka: MockKafka, tmp_path: Path
) -> None:
    stream, topic = make_stream("(n BIGINT)"), kafka.topic()
    kafka.produce(topic, ["a", '{"n":1}', "b"])
    feed(client, kafka.brokers, topic, stream, quarantine=tmp_path)
    [path] = tmp_path.iterdir()
    path.write_text(path.read_text() + path.read_text().splitlines()[0].replace('"offset": 0', '"offset": 3') + "\n{")
    late = tmp_path / f"{topic}-0-{4:020d}.jsonl"
    late.write_text('{"offset": 4}\n')
    other = tmp_path / f"{topic}-11-{4:020d}.jsonl"
    other.write_text('{"offset": 4, "partition": 11}\n')
    kafka.produce(topic, ["c", "d"])
    feed(client, kafka.brokers, topic, stream, quarantine=tmp_path)
    assert [(line["partition"], line["offset"]) for line in lines(tmp_path)] == [
        *((0, offset) for offset in (0, 2, 3, 4)),
        (11, 4),
    ]


def test_a_file_of_the_quarantine_ends_at_its_size(
    kafka: MockKafka, client: Client, make_stream: MakeStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("psoup_kafka.quarantine.FILE_BYTES", 100)
    stream, topic = make_stream("(n BIGINT)"), kafka.topic()
    monkeypatch.setattr("psoup_kafka.loop.BATCH_BYTES", 1)
    kafka.produce(topic, ["a", "b", "c"])
    feed(client, kafka.brokers, topic, stream, quarantine=tmp_path)
    assert [path.name[-7:] for path in sorted(tmp_path.iterdir())] == ["0.jsonl", "1.jsonl", "2.jsonl"]
    Quarantine(tmp_path).cut(topic, 0, 1)
    assert [line["offset"] for line in lines(tmp_path)] == [0]


def test_extra_and_renamed_fields(client: Client, make_stream: MakeStream, kafka: MockKafka) -> None:
    stream, topic = make_stream("(n BIGINT, t TEXT)"), kafka.topic()
    values = ['{"n":1,"Name":"a","more":[1]}', '{"Name":"b","N":2,"more":{"x":2}}', '{"n":3,"other":1.0,"name":null}']
    kafka.produce(topic, values)
    rules = HeaderRules(True, (("Name", "t"),))
    assert feed(client, kafka.brokers, topic, stream, rules=rules).rows == 3
    assert rows(client, stream, "n, t") == [(1, "a"), (2, "b"), (3, None)]


def test_times_that_count_have_a_unit(client: Client, make_stream: MakeStream, kafka: MockKafka) -> None:
    stream, topic = make_stream("(at TIMESTAMP)"), kafka.topic()
    kafka.produce(topic, ['{"at":1767225600123}'])
    assert feed(client, kafka.brokers, topic, stream, unit="ms").rows == 1
    assert rows(client, stream, "at") == [(dt.datetime(2026, 1, 1, 0, 0, 0, 123_000, dt.UTC),)]


# The start -------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_first_start_begins_where_it_is_told(client: Client, make_stream: MakeStream, kafka: MockKafka) -> None:
    topic = kafka.topic()
    kafka.produce(topic, numbers(0, 5))
    for start, expected in (("latest", [5]), (3, [3, 4, 5]), ("earliest", [0, 1, 2, 3, 4, 5])):
        stream = make_stream("(n BIGINT)")
        if start == 3:
            with pytest.raises(OutOfRange, match=r"--from 3: partition 1 .* has offsets 0 to 0"):
                feed(client, kafka.brokers, topic, stream, start=start)
            continue
        feed(client, kafka.brokers, topic, stream, start=start)
        kafka.produce(topic, ['{"n":5}'])
        feed(client, kafka.brokers, topic, stream, start="latest")  # a valid position stays
        got = [n for (n,) in rows(client, stream, "n")]
        assert got[: len(expected)] == expected


@pytest.mark.long
def test_records_that_kafka_removed_are_an_error_until_the_user_chooses(
    client: Client, make_stream: MakeStream, kafka: MockKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, topic = make_stream("(n BIGINT, t TEXT)"), kafka.topic()
    kafka.produce(topic, ['{"n":0}'])
    feed(client, kafka.brokers, topic, stream)
    filler = random.Random(0).randbytes(450_000).hex()  # the brokers keep 5 MiB, compressed
    for n in range(1, 9):
        kafka.produce(topic, [f'{{"n":{n},"t":"{filler}"}}'])
    for _ in range(2):
        with pytest.raises(OutOfRange, match="it would go on at offset 1, and the first one that") as raised:
            feed(client, kafka.brokers, topic, stream)
        low = int(raised.value.facts["low"])
        assert 1 < low < 9 and f"--from earliest goes on at offset {low}, --from latest at 9" in raised.value.message
    ask, stale = Cluster.offsets, [(0, 9)] * PARTITIONS  # as if Kafka removed them after the start
    monkeypatch.setattr(Cluster, "offsets", lambda self, number: stale.pop() if stale else ask(self, number))
    with pytest.raises(OutOfRange, match="it would go on at offset 1"):
        feed(client, kafka.brokers, topic, stream)
    assert not stale
    said = list[str]()
    assert feed(client, kafka.brokers, topic, stream, start="earliest", notice=said.append).rows == 9 - low
    assert said == [f"partition 0: going on at offset {low}, and not at 1"]
    assert [n for (n,) in rows(client, stream, "n")] == [0, *range(low, 9)]
    assert place(client, stream, topic).next == 9


@pytest.mark.parametrize("size", swept([2, 9], fast=1), ids=["shorter", "longer"])
def test_a_topic_that_was_made_anew_is_noticed(
    client: Client, make_stream: MakeStream, kafka: MockKafka, size: int
) -> None:
    stream, topic = make_stream("(n BIGINT)"), kafka.topic()
    kafka.produce(topic, numbers(0, 5), time=1_000)
    feed(client, kafka.brokers, topic, stream)
    anew = MockKafka()
    try:
        anew.produce(topic, numbers(100, 100 + size), time=2_000)
        with pytest.raises(FailedPrecondition, match="the topic was deleted and made anew") as raised:
            feed(client, anew.brokers, topic, stream)
        assert raised.value.reason == "TOPIC_MADE_ANEW" and "--from earliest" in raised.value.message
        assert feed(client, anew.brokers, topic, stream, start="earliest").rows == size
        assert [n for (n,) in rows(client, stream, "n")] == [*range(5), *range(100, 100 + size)]
    finally:
        anew.close()


def test_a_position_of_another_program_is_an_error(client: Client, make_stream: MakeStream, kafka: MockKafka) -> None:
    stream, topic = make_stream("(n BIGINT)"), kafka.topic()
    kafka.produce(topic, numbers(0, 1))
    with client.producer(stream, name=f"kafka {topic}/0") as producer:
        producer.push([], position=b"line 7")
    with pytest.raises(FailedPrecondition, match="another program feeds the stream under this name"):
        feed(client, kafka.brokers, topic, stream)
    assert feed(client, kafka.brokers, topic, stream, name="other").rows == 1


@pytest.mark.long
def test_a_stream_that_was_made_anew_is_noticed_by_the_group(
    client: Client, make_stream: MakeStream, kafka: MockKafka
) -> None:
    stream, topic = make_stream("(n BIGINT)"), kafka.topic()
    kafka.produce(topic, numbers(0, 3))
    feed(client, kafka.brokers, topic, stream)
    client.drop(stream)
    client.create_stream(f"CREATE STREAM {stream} (n BIGINT)")
    with pytest.raises(FailedPrecondition, match=r"its consumer group has offsets \(partition 0: 3\)") as raised:
        feed(client, kafka.brokers, topic, stream)
    assert raised.value.reason == "POSITIONS_GONE"
    assert feed(client, kafka.brokers, topic, stream, start="earliest").rows == 3


@pytest.mark.long
def test_values_are_the_same_read_together_or_one_by_one(
    client: Client, make_stream: MakeStream, kafka: MockKafka, tmp_path: Path
) -> None:
    columns = "(n BIGINT, t TEXT, f DOUBLE, d DECIMAL(9,2), b BOOLEAN, at TIMESTAMP, day DATE)"
    values = [
        '{"n":1,"t":"\\u00e9","f":0.1,"d":1.50,"b":true,"at":"2026-01-01T12:00:00.5+01:00","day":"2026-01-01"}',
        '{"n":-9223372036854775808,"t":"","f":-1.5,"d":"2.25","b":false,"at":"1969-12-31T00:00:00Z","day":null}',
        '{"t":"only"}',
        '{"day":"1600-02-29","f":3}',
    ]
    together, topic = make_stream(columns), kafka.topic()
    kafka.produce(topic, values)
    feed(client, kafka.brokers, topic, together)
    single, topic = make_stream(columns), kafka.topic()
    kafka.produce(topic, [*values, "no"])
    assert feed(client, kafka.brokers, topic, single, quarantine=tmp_path).poison == 1
    names = "n, t, f, d, b, at, day"
    assert rows(client, together, names) == rows(client, single, names)
    assert len(rows(client, single, names)) == len(values)


def test_a_topic_that_is_not_there(client: Client, make_stream: MakeStream, kafka: MockKafka) -> None:
    with pytest.raises(NotFound, match="has no topic 'nowhere'; create it, or correct --topic"):
        feed(client, kafka.brokers, "nowhere", make_stream("(n BIGINT)"))
    with pytest.raises(NotFound):  # the question has not created it
        feed(client, kafka.brokers, "nowhere", make_stream("(n BIGINT)"))


def test_settings_of_the_feed_itself_are_refused(client: Client, make_stream: MakeStream, kafka: MockKafka) -> None:
    with pytest.raises(InvalidRequest, match=r"--kafka-config auto\.offset\.reset: the feed sets it itself"):
        KafkaSource("t", "b", {"auto.offset.reset": "latest"})
    with pytest.raises(InvalidRequest, match="No such configuration property"):
        feed(client, kafka.brokers, "t", make_stream("(n BIGINT)"), config={"nothing": "1"})
