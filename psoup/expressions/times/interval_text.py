"""The text of INTERVAL constants: the largest units that leave whole numbers.

>>> interval_text(0, 28_800_000_000), interval_text(14, 0), interval_text(24, 86_400_000_000)
('INTERVAL 8 HOURS', 'INTERVAL 14 MONTHS', 'INTERVAL 2 YEARS + INTERVAL 1 DAY')
>>> summands(0, -90_000_000)
' - INTERVAL 90 SECONDS'
"""

from __future__ import annotations

from psoup.model import SECOND

_UNITS = {
    "DAY": 86_400 * SECOND,
    "HOUR": 3_600 * SECOND,
    "MINUTE": 60 * SECOND,
    "SECOND": SECOND,
    "MILLISECOND": 1_000,
    "MICROSECOND": 1,
}


def interval_text(months: int, micros: int) -> str:
    """The text of an INTERVAL, which has several parts if it has both months and microseconds."""
    first, *more = _parts(months, micros)
    sign, text = first
    return ("-" if sign == "-" else "") + text + "".join(f" {sign} {text}" for sign, text in more)


def summands(months: int, micros: int) -> str:
    """The text that adds an INTERVAL to the time before it: ` + INTERVAL 8 HOURS`, or ` - …` for negative parts."""
    return "".join(f" {sign} {text}" for sign, text in _parts(months, micros))


def _parts(months: int, micros: int) -> list[tuple[str, str]]:
    """The parts of an INTERVAL, each as its sign and its text. 0 has a part of 0 seconds."""
    parts = []
    if months:
        years = months % 12 == 0
        parts.append(_part(months // 12 if years else months, "YEAR" if years else "MONTH"))
    if micros or not months:
        unit = next(unit for unit, size in _UNITS.items() if micros % size == 0 and (micros or unit == "SECOND"))
        parts.append(_part(micros // _UNITS[unit], unit))
    return parts


def _part(count: int, unit: str) -> tuple[str, str]:
    plural = "" if abs(count) == 1 else "S"
    return "-" if count < 0 else "+", f"INTERVAL {abs(count)} {unit}{plural}"
