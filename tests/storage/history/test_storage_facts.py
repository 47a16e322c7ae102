"""Manifests are read item by item, as a library reads them at once; hostile ones are refused."""

from __future__ import annotations

import json
import random
import zlib
from pathlib import Path
from typing import Any

import pytest

from psoup.errors import InvalidInput
from psoup_storage.formats import facts
from psoup_storage.formats.facts import MANIFEST, parsed, read_facts, write_facts

VALUES = (0, -17, 2**63, 1.5e300, "", 'a "b", [c] {d}: é', True, None)


def some(random: random.Random, depth: int) -> Any:
    """A value of JSON."""
    kind = random.randrange(3 if depth else 1)
    if kind == 0:
        return random.choice(VALUES)
    inner = [some(random, depth - 1) for _ in range(random.randrange(4))]
    return inner if kind == 1 else {f"k{place}": value for place, value in enumerate(inner)}


@pytest.mark.parametrize("seed", range(3))
def test_facts_are_read_as_a_library_reads_them(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "_AT_ONCE", 3)
    chance = random.Random(seed)
    for _ in range(100):
        said = {f"k{place}": some(chance, 3) for place in range(chance.randrange(4))}
        for text in (json.dumps(said), json.dumps(said, separators=(",", ":")), json.dumps(said, indent=1)):
            assert parsed(text) == said
            at = chance.randrange(len(text))
            damaged = text[:at] + chance.choice(' ,:[]{}"0x') + text[at + 1 :]
            assert outcome(parsed, damaged) == outcome(json.loads, damaged)


def outcome(read: Any, text: str) -> Any:
    """What is read of a text; None if it is not an object."""
    try:
        value = read(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"chunks":[' + "[]," * 20 + "[]]}", "its lists have more than 20 items"),
        ('{"a":[' + "1," * 10 + '1],"b":[' + "1," * 10 + "1]}", "its lists have more than 20 items"),
        ('{"chunks":["' + "x" * 2_000_000 + '"]}', "the value at character 11 is longer than 1,048,576"),
        ('{"chunks":' + "[" * 100_000, "its manifest.json cannot be read"),
        ('{"chunks":{"a":' + "[" * 100_000, "its manifest.json cannot be read"),
        ("[1]", r"one of \{ is missing at character 0"),
        ('{"a":[1]}{', "there is more behind its end, at character 9"),
    ],
)
def test_a_hostile_manifest_is_refused(
    tmp_path: Path, text: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "MOST_ITEMS", 20)
    folder = tmp_path / "job"
    folder.mkdir()
    write_facts(folder, {"a": [1]})
    assert read_facts(folder) == {"a": [1]}
    head = json.dumps({"format": 1, "crc": zlib.crc32(text.encode())})
    (folder / MANIFEST).write_text(f"{head}\n{text}\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match=message) as refused:
        read_facts(folder)
    assert refused.value.reason == "BAD_HISTORY"
