"""Records that the feed cannot convert, as JSON lines in files of a folder, each with the reason.

    orders-3-00000000000000001200.jsonl       topic, partition, offset of the first record in the file
    {"topic": "orders", "partition": 3, "offset": 1200, "reason": "…", "key": "k", "value": "{…", …}

A line is on disk before the position behind its record is recorded. After a kill the batch may be read again: the next
start removes the lines behind the recorded position. So each record is in the files once. Bytes that are not UTF-8 are
in base64, under `key_base64` and `value_base64`.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from confluent_kafka import Message

FILE_BYTES = 64 * 1024 * 1024
"""The size at which the next file begins, in bytes."""


class Poison(NamedTuple):
    """A record that does not fit, and the reason."""

    message: Message
    reason: str


class Quarantine:
    """The files of a feed in a folder, which is created if missing. Raises OSError."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._files = dict[tuple[str, int], BinaryIO]()

    def cut(self, topic: str, partition: int, offset: int) -> None:
        """Remove the records of a partition from `offset` on, of batches that were not taken. O(last file)."""
        files = self._paths(topic, partition)
        while files and _first(files[-1]) >= offset:
            files.pop().unlink()
        if not files:
            return
        size = 0
        with files[-1].open("rb+") as file:
            for line in file:
                if not line.endswith(b"\n") or json.loads(line)["offset"] >= offset:
                    break
                size += len(line)
            file.truncate(size)

    def add(self, topic: str, partition: int, records: Sequence[Poison]) -> None:
        """Write records of a partition, ascending, and wait until they are on disk."""
        key = topic, partition
        file = self._files.get(key)
        if file is not None and file.tell() >= FILE_BYTES:
            file.close()
            file = None
        if file is None:
            name = f"{_stem(topic)}-{partition}-{records[0].message.offset():020d}.jsonl"
            file = self._files[key] = (self._folder / name).open("ab")
            _sync(self._folder)
        for record in records:
            file.write(json.dumps(_line(topic, record), ensure_ascii=False).encode(errors="backslashreplace") + b"\n")
        file.flush()
        os.fsync(file.fileno())

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _paths(self, topic: str, partition: int) -> list[Path]:
        name = re.compile(rf"{re.escape(_stem(topic))}-{partition}-\d{{20}}\.jsonl")
        return sorted(path for path in self._folder.iterdir() if name.fullmatch(path.name))


def _stem(topic: str) -> str:
    """The topic in a file's name. Kafka allows letters, digits and ._- in it, and no other character."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", topic)


def _first(path: Path) -> int:
    return int(path.stem[-20:])


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _line(topic: str, record: Poison) -> dict[str, Any]:
    message = record.message
    line = {"topic": topic, "partition": message.partition(), "offset": message.offset(), "reason": record.reason}
    kind, time = message.timestamp()
    line["timestamp"] = time if kind else None
    return line | _bytes("key", message.key()) | _bytes("value", message.value())


def _bytes(name: str, data: bytes | None) -> dict[str, Any]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}
