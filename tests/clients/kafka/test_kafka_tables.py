"""Feeds of tables from mock brokers: values replace rows, tombstones delete them, in the order of the offsets."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from psoup_client import Client
from psoup_testing.oracles.questions import again
from psoup_testing.services import fixtures
from psoup_testing.services.kafka import MockKafka
from psoup_testing.services.kafka_feeds import feed, lines


def make_table(client: Client, definition: str) -> str:
    name = f"t{next(fixtures.numbers)}"
    client.execute(f"CREATE TABLE {name} {definition}")
    return name


def present(client: Client, table: str, columns: str) -> list[tuple[object, ...]]:
    return sorted(again(client.ask, f"SELECT {columns} FROM {table}").rows())


def test_values_replace_rows_and_tombstones_delete_them(client: Client, kafka: MockKafka) -> None:
    table, topic = make_table(client, "(id BIGINT, v TEXT NOT NULL, PRIMARY KEY (id))"), kafka.topic()
    kafka.produce(topic, ['{"id":1,"v":"a"}', '{"id":2,"v":"b"}', '{"id":1,"v":"c"}'])
    kafka.produce(topic, [None], key='{"id":2}')
    kafka.produce(topic, ['{"id":3,"v":"d"}'])
    assert feed(client, kafka.brokers, topic, table).rows > 0
    assert present(client, table, "id, v") == [(1, "c"), (3, "d")]
    kafka.produce(topic, [None], key="1")
    kafka.produce(topic, ['{"id":1,"v":"again"}'])
    kafka.produce(topic, [None], key=b"3")
    feed(client, kafka.brokers, topic, table)
    assert present(client, table, "id, v") == [(1, "again")]


def test_keys_of_several_columns_and_of_texts(client: Client, kafka: MockKafka) -> None:
    pairs, topic = make_table(client, "(shop TEXT, id BIGINT, v BIGINT, PRIMARY KEY (shop, id))"), kafka.topic()
    kafka.produce(topic, ['{"shop":"a","id":1,"v":1}', '{"shop":"a","id":2,"v":2}'])
    kafka.produce(topic, [None], key='{"shop":"a","id":1}')
    feed(client, kafka.brokers, topic, pairs)
    assert present(client, pairs, "shop, id, v") == [("a", 2, 2)]
    texts, topic = make_table(client, "(k TEXT, v BIGINT, PRIMARY KEY (k))"), kafka.topic()
    for key in ("17", "plain", "ü"):
        kafka.produce(topic, ['{"v":1}'], key=key)
    feed(client, kafka.brokers, topic, texts, columns={"key": "k"})
    assert present(client, texts, "k") == [("17",), ("plain",), ("ü",)]
    for key in ("17", '"plain"'):
        kafka.produce(topic, [None], key=key)
    feed(client, kafka.brokers, topic, texts, columns={"key": "k"})
    assert present(client, texts, "k") == [("ü",)]


def test_a_deletion_has_the_time_of_its_record(client: Client, kafka: MockKafka) -> None:
    table = make_table(client, "(id BIGINT, at TIMESTAMP, PRIMARY KEY (id)) TIMESTAMP BY at")
    topic, first = kafka.topic(), 1_767_225_600_000
    kafka.produce(topic, ['{"id":1,"at":"2026-01-01T00:00:00Z"}'])
    kafka.produce(topic, [None], key="1", time=first + 1_000)
    feed(client, kafka.brokers, topic, table)
    assert present(client, table, "id") == []
    kafka.produce(topic, ['{"id":1}'], time=first + 2_000)
    feed(client, kafka.brokers, topic, table, columns={"timestamp": "at"})
    assert present(client, table, "id, at") == [(1, dt.datetime(2026, 1, 1, 0, 0, 2, tzinfo=dt.UTC))]


def test_tombstones_without_the_primary_key_are_set_aside(client: Client, kafka: MockKafka, tmp_path: Path) -> None:
    table, topic = make_table(client, "(shop TEXT, id BIGINT, v TEXT NOT NULL, PRIMARY KEY (shop, id))"), kafka.topic()
    keys = (None, "7", '{"shop":"a"}', '{"shop":"a","id":"x"}', '{"shop":"a","id":1,"other":2}', b"\xff")
    for key in keys:
        kafka.produce(topic, [None], key=key)
    kafka.produce(topic, ['{"shop":"a","id":1}', '{"id":1,"v":"x"}', '{"shop":"a","id":1,"v":"x","_deleted":true}'])
    kafka.produce(topic, ['{"shop":"a","id":1,"v":"x"}', '{"shop":"a","id":2,"v":"x"}'])
    kafka.produce(topic, [None], key='{"shop":"a","id":2}')
    figures = feed(client, kafka.brokers, topic, table, quarantine=tmp_path)
    assert figures.poison == len(keys) + 3
    reasons = [line["reason"] for line in lines(tmp_path)]
    for reason, said in zip(
        reasons,
        (
            "neither a value nor a key",
            "not an object with the fields shop, id",
            "lacks 'id'",
            "'x' in column 'id' does not fit BIGINT",
            "no column 'other'",
            "not an object with the fields",
            "'v' is NULL",
            "'shop' is NULL",
            "a deletion is a record without a value",
        ),
        strict=True,
    ):
        assert said in reason
    assert present(client, table, "shop, id, v") == [("a", 1, "x")]
