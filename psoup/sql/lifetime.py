"""The text of a lifetime, such as "90 days": a query without an invocation for that long is unregistered."""

from __future__ import annotations

import re

from psoup.errors import InvalidInput
from psoup.plan.canonical import UNITS
from psoup.sql.types import unit_name

MOST_DAYS = 36_525
"""The longest lifetime: a hundred years."""
_DAY = UNITS["DAY"]
_FORM = re.compile(r"\s*([0-9]{1,12})\s*([A-Za-z]{1,20})\s*", re.ASCII)
_SHOWN = 60


def lifetime_days(text: str) -> int:
    """The days of a lifetime, rounded up. 0 for an empty text, which means no lifetime. Raises InvalidInput."""
    if not text:
        return 0
    form = _FORM.fullmatch(text)
    unit = "" if form is None else unit_name(form[2])
    if form is None or unit not in UNITS:
        months = unit in ("MONTH", "YEAR", "QUARTER")
        hint = "months and years have no fixed length, say it in days or weeks" if months else "give it as '90 days'"
        raise _refusal(text, f"is not a time after which a query expires; {hint}")
    days = -(-int(form[1]) * UNITS[unit] // _DAY)
    if not days:
        raise _refusal(text, "would expire at once; give at least 1 day, or leave it out")
    if days > MOST_DAYS:
        raise _refusal(text, f"is too long; {MOST_DAYS:,} days are the most, and without it a query never expires")
    return days


def _refusal(text: str, reason: str) -> InvalidInput:
    return InvalidInput(f"expires_after {text[:_SHOWN]!r} {reason}", reason="EXPIRES_AFTER", field="expires_after")
