"""Quantities with a unit, as people write them: 200kB, 1.5MiB, 15min, 10s.

>>> read_bytes("200kB"), read_bytes("1.5 MiB"), read_seconds("15min")
(200000, 1572864, 900.0)
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_BYTES = {"": 1, "b": 1, "kb": 1_000, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_BYTES |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}
_SHOWN = 80
"""The greatest number of characters of the user's text in a message."""


def read_bytes(text: str) -> int:
    """Return the number of bytes.

    A number without a unit is in bytes. Raises ValueError that names the expected form.
    """
    return int(_read(text, _BYTES, "number of bytes: 200kB, 1.5MiB"))


def read_seconds(text: str) -> float:
    """Return the number of seconds. A number without a unit is in seconds. Raises ValueError that names the expected
    form.
    """
    return _read(text, _SECONDS, "span of time: 10s, 15min, 1.5h")


def _read(text: str, units: Mapping[str, float], noun: str) -> float:
    match = re.fullmatch(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([a-zA-Z]*)\s*", text, re.ASCII)
    if match is None or match[2].lower() not in units:
        names = ", ".join(unit for unit in units if unit)
        raise ValueError(f"{text[:_SHOWN]!r}, no {noun}; the units are {names}")
    return float(match[1]) * units[match[2].lower()]
