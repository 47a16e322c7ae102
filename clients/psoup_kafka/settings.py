"""The settings of a feed, and the files with settings of Kafka.

    --kafka-config-file client.properties     NAME=VALUE on each line
    --kafka-config fetch.min.bytes=65536      a single setting

A single setting replaces the same one of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from psoup_client import InvalidRequest

OWNED = frozenset(
    (
        *("bootstrap.servers", "metadata.broker.list", "auto.offset.reset", "enable.auto.commit"),
        *("enable.auto.offset.store", "enable.partition.eof", "allow.auto.create.topics"),
    )
)
"""Settings that a feed makes itself, because its positions depend on them."""

REGISTRY = "schema.registry."
"""The beginning of the names of settings for the schema registry."""


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """A topic and the way to it. `brokers`: HOST:PORT, separated by commas. `config`: settings of librdkafka.

    `name`: the name of the feed, part of its producers' names; the topic's name by default. Two feeds of one stream
    need different names.
    """

    topic: str
    brokers: str
    config: Mapping[str, str] = field(default_factory=dict)
    name: str = ""

    def __post_init__(self) -> None:
        """Raises InvalidRequest for an empty name, and for a setting that a feed makes itself."""
        if not self.topic.strip():
            raise InvalidRequest("--topic is empty: name the topic of Kafka")
        if not self.brokers.strip(" ,"):
            raise InvalidRequest("--brokers is empty: give HOST:PORT of some brokers, such as kafka1:9092")
        check(self.config)
        object.__setattr__(self, "name", self.name or self.topic)

    def producer(self, partition: int) -> str:
        """The name of the producer of a partition."""
        return f"kafka {self.name}/{partition}"

    def group(self, stream: str) -> str:
        """The consumer group that gets the offsets."""
        return self.config.get("group.id", f"psoup-{stream}-{self.name}")


def check(config: Iterable[str]) -> None:
    """Raise InvalidRequest for a setting that a feed makes itself."""
    for name in config:
        if name in OWNED:
            way = "give --brokers" if name in ("bootstrap.servers", "metadata.broker.list") else "leave it out"
            raise InvalidRequest(f"--kafka-config {name}: the feed sets it itself; {way}", facts={"setting": name})


def read_config(path: Path) -> dict[str, str]:
    """Read a file of settings: NAME=VALUE on each line, # begins a comment. Raises InvalidRequest and OSError."""
    config = dict[str, str]()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as problem:
        number = 1 + problem.object.count(b"\n", 0, problem.start)
        raise InvalidRequest(f"{path}, line {number}: it is not UTF-8; save the file in UTF-8") from None
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith(("#", "!")):
            continue
        name, equals, value = text.partition("=")
        if not (equals and name.strip()):
            raise InvalidRequest(f"{path}, line {number}: it is not of the form NAME=VALUE")
        config[name.strip()] = value.strip()
    return config


def divide(config: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Divide settings: for Kafka, and for the schema registry, whose names lose `schema.registry.`."""
    kafka = {name: value for name, value in config.items() if not name.startswith(REGISTRY)}
    return kafka, {name[len(REGISTRY) :]: value for name, value in config.items() if name.startswith(REGISTRY)}
