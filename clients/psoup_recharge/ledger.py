"""The record of recharges. `history` has a line for each copy, and `recharges` one for each recharge.

Old lines are deleted.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from psoup_recharge.sqlite import File

_LINES = 10_000
"""The number of lines that each of the two tables keeps."""

_COPIES = ("at", "name", "bytes", "came", "gone", "reset", "error")
_RECHARGES = ("at", "seconds", "sent", "received", "came", "gone", "left_out", "why")


def note_copy(file: File, name: str, size: int, came: int, gone: int, reset: str, error: str) -> None:
    """Write one line of `history`: the bytes, the rows that came and left, and an error, for one copy."""
    _write(file, "history", (name, size, came, gone, reset, error))


def note_recharge(
    file: File, seconds: float, sent: int, received: int, came: int, gone: int, left_out: str, why: str
) -> None:
    """Write one line of `recharges`.

    It has the seconds, the bytes, the rows that came and left, and the copies left out with the reason.
    """
    _write(file, "recharges", (seconds, sent, received, came, gone, left_out, why))


def history(file: File, lines: int) -> list[dict[str, Any]]:
    """Return the latest lines of `history`, the newest first."""
    return _read(file, "history", _COPIES, lines)


def recharges(file: File, lines: int) -> list[dict[str, Any]]:
    """Return the latest lines of `recharges`, the newest first."""
    return _read(file, "recharges", _RECHARGES, lines)


def _write(file: File, table: str, values: tuple[Any, ...]) -> None:
    line = (dt.datetime.now(dt.UTC).isoformat(), *values)
    file.run(f"INSERT INTO {table} VALUES ({', '.join('?' * len(line))})", *line)
    file.run(f"DELETE FROM {table} WHERE rowid <= (SELECT max(rowid) FROM {table}) - ?", _LINES)


def _read(file: File, table: str, names: tuple[str, ...], lines: int) -> list[dict[str, Any]]:
    rows = file.run(f"SELECT {', '.join(names)} FROM {table} ORDER BY rowid DESC LIMIT ?", lines)
    return [dict(zip(names, row, strict=True)) for row in rows]
