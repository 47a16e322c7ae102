"""The manifest of a job's directory: facts in JSON, under a checksum. Lists are read item by item.

    {"format":1,"crc":…}
    {"stream":"trades","chunks":[[…],[…],…]}        an item at a time

The parser of the `json` module would hold the interpreter for a whole text. For a hostile list of 16 MiB that is more
than a second and 400 MiB. Here other threads run between items, and the number of items is limited.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Mapping
from json import JSONDecoder
from pathlib import Path
from typing import Any

import pyarrow as pa

from psoup_storage.formats.files import sync_directory
from psoup_storage.formats.job_folder import JobFolder, bad_history

MANIFEST = "manifest.json"
FORMAT = 1
"""The form of a job directory that this version writes and reads."""
MOST_ITEMS = 1_000_000
"""The most items in all lists of a manifest."""
MOST_ITEM_CHARS = 1 << 20
"""The most characters of an item."""
_AT_ONCE = 1 << 13
_SIGN = re.compile(r"[ \t\r\n]{0,9}([\[\]{},:])[ \t\r\n]{0,9}")
_DECODER = JSONDecoder()


def write_facts(directory: Path, facts: Mapping[str, Any]) -> None:
    """Write the manifest, which makes a job's directory complete; durable. Raises OSError."""
    text = json.dumps(facts, separators=(",", ":"))
    head = json.dumps({"format": FORMAT, "crc": zlib.crc32(text.encode())})
    write_file(directory / MANIFEST, pa.py_buffer(f"{head}\n{text}\n".encode()))
    sync_directory(directory)


def read_facts(directory: Path) -> dict[str, Any]:
    """The facts that `write_facts` wrote; raises InvalidInput, reason BAD_HISTORY, if they are missing or damaged."""
    try:
        with JobFolder(directory) as folder:
            head, _, raw = folder.read(MANIFEST).partition(b"\n")
        frame = _value(head.decode("utf-8"), 0)[0]
        if frame["format"] != FORMAT:
            raise bad_history(directory, f"it has format {frame['format']}, and this version knows {FORMAT}")
        raw = raw.removesuffix(b"\n")
        if zlib.crc32(raw) != frame["crc"]:
            raise bad_history(directory, f"its {MANIFEST} has changed since it was written")
        return parsed(raw.decode("utf-8"))
    except FileNotFoundError as problem:
        raise bad_history(directory, f"there is no {MANIFEST}, so the job that wrote it has not ended") from problem
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        raise bad_history(directory, f"its {MANIFEST} cannot be read: {why}") from problem


def write_file(path: Path, content: pa.Buffer) -> None:
    """Write a file in one step; its content is durable, its name not yet. Raises OSError."""
    new = path.with_name(path.name + ".new")
    with open(new, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.rename(new, path)


def parsed(text: str) -> dict[str, Any]:
    """Parse a JSON object whose values are lists or short. Raises ValueError, RecursionError. O(characters)."""
    facts, counted = dict[str, Any](), 0
    sign, at = _sign(text, 0, "{")
    if text[at : at + 1] == "}":
        sign, at = _sign(text, at, "}")
    while sign != "}":
        key, at = _value(text, at)
        if not isinstance(key, str):
            raise ValueError(f"a name is missing before character {at:,}")
        _, at = _sign(text, at, ":")
        if text[at : at + 1] == "[":
            facts[key], at = _items(text, at, MOST_ITEMS - counted)
            counted += len(facts[key])
        else:
            facts[key], at = _value(text, at)
        sign, at = _sign(text, at, ",}")
    if at != len(text):
        raise ValueError(f"there is more behind its end, at character {at:,}")
    return facts


def _items(text: str, at: int, limit: int) -> tuple[list[Any], int]:
    """The items of the list that begins at `at`, and the position after it."""
    items = list[Any]()
    sign, at = _sign(text, at, "[")
    if text[at : at + 1] == "]":
        return items, at + 1
    while sign != "]":
        if len(items) == limit:
            raise ValueError(f"its lists have more than {MOST_ITEMS:,} items")
        item, at = _value(text, at)
        items.append(item)
        sign, at = _sign(text, at, ",]")
    return items, at


def _value(text: str, at: int) -> tuple[Any, int]:
    """The value that begins at `at`, and the position after it."""
    size = _AT_ONCE
    while True:
        piece = text[at : at + size]
        try:
            value, end = _DECODER.raw_decode(piece)
            if end < len(piece) or at + end == len(text):  # a number may continue after the piece
                return value, at + end
        except ValueError:
            if len(piece) < size:
                raise
        if size == MOST_ITEM_CHARS:
            raise ValueError(f"the value at character {at:,} is longer than {MOST_ITEM_CHARS:,}, or wrong")
        size = min(8 * size, MOST_ITEM_CHARS)


def _sign(text: str, at: int, wanted: str) -> tuple[str, int]:
    """The sign at `at`, which must be in `wanted`, and the position after it. White space around it is skipped."""
    match = _SIGN.match(text, at)
    if match is None or match[1] not in wanted:
        raise ValueError(f"one of {' '.join(wanted)} is missing at character {at:,}")
    return match[1], match.end()
