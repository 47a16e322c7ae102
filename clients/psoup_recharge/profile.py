"""Profiles: the queries that a store is to keep, as a TOML file.

[delays]
sql = "SELECT * FROM flights WHERE dep_delay > 60 BEGIN (NOW - 1 DAY)"
priority = 10
fresh = 900            # seconds

[alerts]
key = "alerts/u7"      # or id = "q-7f3a91c2-12"
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from psoup_client.errors import InvalidRequest
from psoup_recharge.entry import Entry

_FIELDS: dict[str, tuple[str, type | tuple[type, ...]]] = {
    "sql": ("sql", str),
    "id": ("query_id", str),
    "key": ("key", str),
    "priority": ("priority", (int, float)),
    "fresh": ("fresh", (int, float)),
}
_BYTES = 1024 * 1024


def read_profile(path: str | Path) -> list[Entry]:
    """Read the entries of a profile, in its order. Raises InvalidRequest that names the entry; OSError."""
    with open(path, "rb") as file:
        content = file.read(_BYTES + 1)
    if len(content) > _BYTES:
        raise InvalidRequest(f"{path} has more than {_BYTES:,} bytes: it is no profile")
    try:
        tables = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise InvalidRequest(f"{path} is no TOML: {problem}") from None
    return [_entry(name, table) for name, table in tables.items()]


def _entry(name: str, table: Any) -> Entry:
    if not isinstance(table, dict):
        raise InvalidRequest(f'{name}: a profile has a table for each query: [{name}], then sql = "…"')
    for field, value in table.items():
        if field not in _FIELDS:
            raise InvalidRequest(f"{name}: {field[:80]!r} is not known; an entry has {', '.join(_FIELDS)}")
        if not isinstance(value, _FIELDS[field][1]) or isinstance(value, bool):
            kind = "a text" if _FIELDS[field][1] is str else "a number"
            raise InvalidRequest(f"{name}: {field} is {value!r}; it must be {kind}")
    entry = Entry(name, **{_FIELDS[field][0]: value for field, value in table.items()})
    entry.check()
    return entry
