"""The proleptic Gregorian calendar on arrays: days since 1970 to year, month, day and back; names of parts.

All arguments and results are int64[n]. All years are valid, negative ones too (year 0 is 1 BC). The functions are pure
arithmetic, O(n).
"""

from __future__ import annotations

import numpy as np

from psoup.values.columns import Array

DAY_MICROS = 86_400_000_000
FIRST_MICRO = -9_223_372_022_400_000_000
"""The first TIMESTAMP that functions return: midnight of the first full day in int64 microseconds."""
LAST_MICRO = 2**63 - 2
"""The last TIMESTAMP; DuckDB uses the greatest int64 for infinity."""
LAST_DAY = 2**31 - 2
"""The last DATE; DuckDB uses the ends of int32 for infinity."""

EXTRACT_PARTS = (
    "year",
    "quarter",
    "month",
    "week",
    "day",
    "dow",
    "isodow",
    "doy",
    "hour",
    "minute",
    "second",
    "millisecond",
    "microsecond",
    "epoch",
    "isoyear",
    "decade",
    "century",
    "millennium",
    "julian",
)
TRUNC_PARTS = (
    "millennium",
    "century",
    "decade",
    "isoyear",
    "year",
    "quarter",
    "month",
    "week",
    "day",
    "hour",
    "minute",
    "second",
    "millisecond",
    "microsecond",
)
PART_ALIASES = {
    "years": "year",
    "yr": "year",
    "yrs": "year",
    "y": "year",
    "quarters": "quarter",
    "months": "month",
    "mon": "month",
    "mons": "month",
    "weeks": "week",
    "w": "week",
    "weekofyear": "week",
    "days": "day",
    "d": "day",
    "dayofmonth": "day",
    "dayofweek": "dow",
    "weekday": "dow",
    "dayofyear": "doy",
    "hours": "hour",
    "hr": "hour",
    "hrs": "hour",
    "h": "hour",
    "minutes": "minute",
    "min": "minute",
    "mins": "minute",
    "m": "minute",
    "seconds": "second",
    "sec": "second",
    "secs": "second",
    "s": "second",
    "milliseconds": "millisecond",
    "ms": "millisecond",
    "msec": "millisecond",
    "microseconds": "microsecond",
    "us": "microsecond",
    "usec": "microsecond",
    "decades": "decade",
    "dec": "decade",
    "centuries": "century",
    "cent": "century",
    "millennia": "millennium",
    "mil": "millennium",
}


def civil_from_days(days: Array) -> tuple[Array, Array, Array]:
    """Year, month (1-12) and day (1-31) of `days` since 1970-01-01."""
    shifted = days.astype(np.int64) + 719_468
    era = shifted // 146_097
    of_era = shifted - era * 146_097
    year_of_era = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * of_year + 2) // 153
    day = of_year - (153 * month_from_march + 2) // 5 + 1
    month = np.where(month_from_march < 10, month_from_march + 3, month_from_march - 9)
    year = year_of_era + era * 400 + (month <= 2)
    return year, month, day


def days_from_civil(year: Array, month: Array, day: Array) -> Array:
    """The days since 1970-01-01 of a date. A `day` outside its month counts on into the months before or after."""
    from_march = year - (month <= 2)
    era = from_march // 400
    year_of_era = from_march - era * 400
    of_year = (153 * np.where(month > 2, month - 3, month + 9) + 2) // 5 + day - 1
    of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + of_year
    days: Array = era * 146_097 + of_era - 719_468
    return days


def days_in_month(year: Array, month: Array) -> Array:
    """The number of days of a month, 28 to 31."""
    lengths: Array = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.int64)[month]
    leap = ((year % 4 == 0) & (year % 100 != 0)) | (year % 400 == 0)
    lengths += (month == 2) & leap
    return lengths


def iso_week(days: Array) -> tuple[Array, Array]:
    """ISO year and week (1-53): the week of the Thursday of each date's week, which starts on Monday."""
    thursday = days - (days + 3) % 7 + 3
    year, _, _ = civil_from_days(thursday)
    first = days_from_civil(year, np.ones_like(year), np.ones_like(year))
    return year, (thursday - first) // 7 + 1
