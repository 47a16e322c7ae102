"""Fast conversion of text constants in plain form, with the results of the casts of columns.

    '2020-01-31'  '2020-01-31 23:59:00'  '-17'  '2.50'

A cast of a column takes a millisecond for one row, and a statement may have thousands of constants. The cast converts
texts in any other form.
"""

from __future__ import annotations

import datetime
import re

from psoup.model import EPOCH, SECOND, DataType, Kind

_FORMS = {
    Kind.DATE: re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    Kind.TIMESTAMP: re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}"),
    Kind.BIGINT: re.compile(r"-?[0-9]{1,18}"),
    Kind.DOUBLE: re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?"),
}
_FIRST_DAY = EPOCH.toordinal()


def plain_value(text: str, type: DataType) -> int | float | None:
    """The value of `text` as a `type`, in storage form. Returns None if the text is not in plain form, or not
    a `type`.
    """
    form = _FORMS.get(type.kind)
    if form is None or not form.fullmatch(text):
        return None
    if type.kind is Kind.BIGINT:
        return int(text)
    if type.kind is Kind.DOUBLE:
        return float(text)
    try:
        day = datetime.date.fromisoformat(text[:10]).toordinal() - _FIRST_DAY
        if type.kind is Kind.DATE:
            return day
        clock = datetime.time.fromisoformat(text[11:])
    except ValueError:
        return None
    return (day * 86_400 + clock.hour * 3_600 + clock.minute * 60 + clock.second) * SECOND
