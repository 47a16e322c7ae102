"""Feeds from Kafka for tests: what the command does, in the test's process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from psoup_cli.files.header import FieldNames, HeaderRules
from psoup_client import Client
from psoup_client.columns.casts import TimeOptions
from psoup_kafka import FeedOptions, Figures, KafkaSource, Place, RecordColumns, Target, TopicFeed
from psoup_testing.oracles.questions import again


def target(client: Client, stream: str, *, rules: HeaderRules | None = None, **more: Any) -> Target:
    """A stream as the target of a feed."""
    info = client.describe(stream)
    columns = RecordColumns(**more.pop("columns", {}))
    times = TimeOptions(more.pop("unit", None))
    fields, read_value = FieldNames(info, rules or HeaderRules()), more.pop("read_value", None)
    return Target(info, fields, columns, times, client.info().text_bytes, read_value)


def make_feed(client: Client, brokers: str, topic: str, stream: str, **more: Any) -> TopicFeed:
    """A feed up to the present end, unless `until_end` says otherwise."""
    named = {name: more.pop(name) for name in ("columns", "rules", "read_value", "unit") if name in more}
    tell, notice = more.pop("tell", None), more.pop("notice", None)
    source = KafkaSource(topic, brokers, more.pop("config", {}), more.pop("name", ""))
    options = FeedOptions(**{"until_end": True, "patience": 20.0, **more})
    return TopicFeed(client, source, target(client, stream, **named), options, tell, notice)


def feed(client: Client, brokers: str, topic: str, stream: str, **more: Any) -> Figures:
    """Feed up to the present end."""
    return make_feed(client, brokers, topic, stream, **more).run()


def rows(client: Client, stream: str, columns: str) -> list[tuple[Any, ...]]:
    """All rows of a stream, in the order of their arrival."""
    return again(client.ask, f"SELECT {columns} FROM {stream} BEGIN (START)").rows()


def lines(folder: Path) -> list[dict[str, Any]]:
    """The records in a quarantine, by partition and offset."""
    records = [json.loads(line) for path in folder.iterdir() for line in path.read_text().splitlines()]
    return sorted(records, key=lambda line: (line["partition"], line["offset"]))


def numbers(first: int, stop: int) -> list[str]:
    """Records with numbers."""
    return [f'{{"n":{n}}}' for n in range(first, stop)]


def count(client: Client, stream: str) -> int:
    """The rows that a stream has taken."""
    return int(client.describe(stream).next_tuple_id)


def place(client: Client, stream: str, topic: str, partition: int = 0) -> Place:
    """The recorded place of a feed in a partition."""
    source = client.position(stream, f"kafka {topic}/{partition}").source
    assert source is not None
    return Place.of(source)
