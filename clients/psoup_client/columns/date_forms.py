"""Formats that read a text as a date or a time, for the advice of a refusal.

    30.06.2026 12:05     %d.%m.%Y %H:%M
    03/04/2026           %d/%m/%Y or %m/%d/%Y        both read it, and the user knows which is meant
    Jul 4, 2026          %b %d, %Y

A format is returned only if the reader of times takes the text with it.
"""

from __future__ import annotations

import re
from itertools import product

import pyarrow as pa

from psoup_client.columns.casts import REFUSALS, TimeOptions, cast

_DAY = re.compile(r"(?P<a>\d{1,4})(?P<mark>[./ -])(?P<b>\d{1,2})(?P=mark)(?P<c>\d{1,4})|(?P<digits>\d{8})")
_ORDERS = (("d", "m", "y"), ("m", "d", "y"), ("y", "m", "d"))
_NAMED = tuple(
    f"{before}{form}"
    for before in ("", "%a, ", "%A, ")
    for form in (
        *(f"%d{mark}{month}{mark}%Y" for mark, month in product((" ", "-", ". ", "/"), ("%b", "%B"))),
        *("%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y", "%d-%b-%y", "%d %b %y"),
    )
)
"""Formats with the name of the month."""

_CLOCK = re.compile(r"(?P<gap>[ T,:]+)\d{1,2}(?P<mark>[:.])\d\d((?P=mark)\d\d(?P<part>\.\d+)?)?(?P<half> ?[AaPp][Mm])?")
_LONGEST = 64


def formats_of(text: str, target: pa.DataType) -> list[str]:
    """Return the formats, at most three, that read the text for a column of the type `target`."""
    text = text.strip()
    if len(text) > _LONGEST or not text.isascii():
        return []
    clock = next((match for match in _CLOCK.finditer(text) if match.start() and match.end() == len(text)), None)
    day = text[: clock.start()] if clock else text
    rest = _clock_format(clock) if clock else ""
    named = re.search("[A-Za-z]", day) is not None
    read = dict[object, str]()
    for form in _day_formats(day):
        value = _read(text, form + rest, target)
        if value is not None:
            read.setdefault(value if named else form, form + rest)  # "%b" and "%B" read the same names
    return [*read.values()][:3]


def _day_formats(day: str) -> list[str]:
    match = _DAY.fullmatch(day)
    if match is None:
        directive = "%Y" if re.search(r"\d{4}", day) else "%y"
        return [form for form in _NAMED if directive in form] if re.search("[A-Za-z]", day) else []
    if match["digits"]:
        return ["%Y%m%d"]
    parts, forms = (match["a"], match["b"], match["c"]), list[str]()
    for order in _ORDERS:
        year = len(parts[order.index("y")])
        if year in (2, 4) and all(len(part) <= 2 for part, role in zip(parts, order, strict=True) if role != "y"):
            roles = ["%Y" if role == "y" and year == 4 else f"%{role}" for role in order]
            forms.append(match["mark"].join(roles))
    return forms


def _clock_format(clock: re.Match[str]) -> str:
    hour, mark = ("%I" if clock["half"] else "%H"), clock["mark"]
    seconds = (f"{mark}%S" if clock[3] else "") + (".%f" if clock["part"] else "")
    half = {"": "", " ": " %p"}.get((clock["half"] or "")[:1], "%p")
    return f"{clock['gap']}{hour}{mark}%M{seconds}{half}"


def _read(text: str, form: str, target: pa.DataType) -> pa.Scalar | None:
    try:
        value = cast(pa.array([text]), target, TimeOptions(None, (form,)))[0]
    except REFUSALS:
        return None
    return value if value.is_valid else None
