"""The end of an access token, as people write it: `90 days`, `12h`, `2030-01-01`."""

from __future__ import annotations

import datetime as dt
import re

import typer

from psoup_client.times import to_micros

_UNITS = {"min": 60, "minute": 60, "h": 3_600, "hour": 3_600, "d": 86_400, "day": 86_400, "w": 604_800, "week": 604_800}
"""The seconds of each unit. Users may add an s to the long names."""

_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)", re.ASCII)
_LAST_US = 253_402_300_799_000_000
"""The latest end of a token, in microseconds: the last second of the year 9999."""


def read_expiry(text: str | None, now_us: int) -> dt.timedelta | None:
    """Convert the text to a lifetime from now: a number with a unit, or an instant, in UTC if it has no zone.

    Raises BadParameter.
    """
    if text is None:
        return None
    given = f"--expires {text[:80]!r}"
    match = _NUMBER.fullmatch(text.strip().lower())
    unit = "" if match is None else match[2] if match[2] in _UNITS else match[2].removesuffix("s")
    if match is not None and unit in _UNITS:
        number = float(match[1])
        if not number:
            raise typer.BadParameter(f"{given} is over at once: write a number above 0")
        micros = min(number * _UNITS[unit], _LAST_US) * 1_000_000
    else:
        try:
            micros = to_micros(text) - now_us
        except ValueError:
            raise typer.BadParameter(
                f"{given} is not a time: write a number of minutes, hours, days or weeks, such as '90 days'"
                " or 12h, or when it ends, such as 2030-01-01 or 2030-01-01T12:00:00Z"
            ) from None
        if micros <= 0:
            now = dt.datetime.fromtimestamp(now_us // 1_000_000, dt.UTC)
            raise typer.BadParameter(f"{given} is past: it is {now:%Y-%m-%dT%H:%M:%SZ}")
    if now_us + micros > _LAST_US:
        raise typer.BadParameter(
            f"{given} is too far: a token ends in the year 9999 at the latest, or never, without --expires"
        )
    return dt.timedelta(microseconds=micros)
