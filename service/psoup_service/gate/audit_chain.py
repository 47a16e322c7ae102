"""Reading an audit log: its lines, and whether its chain is whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psoup.errors import InvalidInput
from psoup_service.gate.audit import FIRST, NAME, hash_of

_BEGINS = b'{"time":"'
"""The first bytes of every line. An incomplete line is recognized by them."""


@dataclass(frozen=True, slots=True)
class Verified:
    """Result of reading an audit log. Lines count from 1, and 0 stands for a missing line.

    `broken`: the first line that does not follow from its predecessor. `foreign`: the first line that no service wrote.
    `torn`: the number of incomplete lines. `after`: the hash before the first whole line, from an earlier file; "" if
    there was no earlier line. `last`: the hash of the last line; "" without one. `there`: whether the chain has the
    expected hash.
    """

    lines: int = 0
    broken: int = 0
    foreign: int = 0
    torn: int = 0
    after: str = ""
    last: str = ""
    there: bool = False


def audit_file(path: Path) -> Path:
    """The audit log of a data directory, or the path itself. Raises InvalidInput if the file is missing."""
    file = path / NAME if path.is_dir() else path
    if not file.is_file():
        raise InvalidInput(
            f"{file} is not there: a service with access tokens writes it into its data directory", reason="NO_AUDIT"
        )
    return file


def lines_of(file: Path) -> Iterator[dict[str, Any]]:
    """The parsed lines of a file. Lines that cannot be parsed are skipped."""
    with file.open("rb") as source:
        for raw in source:
            line = _parsed(raw)
            if line is not None:
                yield line


def verify(file: Path, expected: str = "") -> Verified:
    """Follow the chain of a file from its first line, which may continue an earlier file. O(bytes)."""
    count = broken = foreign = torn = 0
    first, last, present = "", "", False
    with file.open("rb") as source:
        for raw in source:
            count += 1
            line = _parsed(raw)
            if line is not None:
                before = str(line["before"])
                first = first or before
                present |= before == expected
                if last and before != last and not broken:
                    broken = count
            elif _is_torn(raw):
                torn += 1
            else:
                foreign = foreign or count
            last = hash_of(raw.rstrip(b"\n"))
    return Verified(count, broken, foreign, torn, "" if first == FIRST else first, last, present or last == expected)


def _is_torn(raw: bytes) -> bool:
    """Whether the bytes may be a line that a killed service did not finish."""
    text = raw.rstrip(b"\n")
    if not (text.startswith(_BEGINS) or _BEGINS.startswith(text)):
        return False
    try:
        json.loads(text)
    except ValueError:
        return True
    except RecursionError:
        pass
    return False


def _parsed(raw: bytes) -> dict[str, Any] | None:
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) and "before" in line else None
