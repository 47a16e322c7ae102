"""Profiles: the queries of a store, as a TOML file.

[delays]
sql = "SELECT * FROM flights WHERE dep_delay > 60 BEGIN (NOW - 1 DAY)"
priority = 10
fresh = 900                       # seconds, or a text with a unit: "15min"
share = 0.5                       # of the bytes of a recharge are kept for it
order = "oldest"                  # rows come first, if not all may come; else the newest

[alerts]
key = "alerts/u7"                 # or id = "q-7f3a91c2-12"
window = "BEGIN (NOW - 1 HOUR)"   # instead of the query's own
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from psoup_client.errors import InvalidRequest
from psoup_recharge.entry import Entry
from psoup_recharge.quantities import read_seconds

_TEXT: tuple[type, ...] = (str,)
_NUMBER: tuple[type, ...] = (int, float)
_FIELDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "sql": ("sql", _TEXT),
    "id": ("query_id", _TEXT),
    "key": ("key", _TEXT),
    "priority": ("priority", _NUMBER),
    "fresh": ("fresh", (*_NUMBER, str)),
    "share": ("share", _NUMBER),
    "order": ("order", _TEXT),
    "window": ("window", _TEXT),
}
_KINDS = {_TEXT: "a text", _NUMBER: "a number"}
_BYTES = 1024 * 1024


def read_profile(path: str | Path) -> list[Entry]:
    """Read the entries of a profile, in the order of the file.

    Raises OSError, and InvalidRequest that names the file, the entry and the value.
    """
    with open(path, "rb") as file:
        content = file.read(_BYTES + 1)
    if len(content) > _BYTES:
        raise InvalidRequest(f"{path} has more than {_BYTES:,} bytes: it is not a valid profile")
    try:
        tables = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as problem:
        raise InvalidRequest(f"{path} is not valid TOML: {problem}") from None
    seen = dict[str, str]()
    for name in tables:
        if seen.setdefault(name.lower(), name) != name:
            raise InvalidRequest(f"{path}: [{name}] and [{seen[name.lower()]}] differ in case only; rename one of them")
    try:
        return [_entry(name, table) for name, table in tables.items()]
    except InvalidRequest as problem:
        raise InvalidRequest(f"{path}: {problem}") from None
    except ValueError:  # Python refuses to write an integer of so many digits
        raise InvalidRequest(f"{path}: a number has more digits than any number here may have") from None


def _entry(name: str, table: Any) -> Entry:
    if not isinstance(table, dict):
        raise InvalidRequest(f'{name[:80]}: a profile has a table for each query: [{name[:80]}], then sql = "…"')
    wished = dict[str, Any]()
    for field, value in table.items():
        if field not in _FIELDS:
            raise InvalidRequest(f"[{name}]: {field[:80]!r} is not known; an entry has {', '.join(_FIELDS)}")
        wish, kinds = _FIELDS[field]
        if not isinstance(value, kinds) or isinstance(value, bool):
            kind = _KINDS.get(kinds, 'seconds, or a text with a unit, as "15min"')
            raise InvalidRequest(f"[{name}]: {field} is {str(value)[:80]}; it must be {kind}")
        wished[wish] = value
    if isinstance(wished.get("fresh"), str):
        try:
            wished["fresh"] = read_seconds(wished["fresh"])
        except ValueError as problem:
            raise InvalidRequest(f"[{name}]: fresh is {problem}") from None
    entry = Entry(name, **wished)
    entry.check()
    return entry
