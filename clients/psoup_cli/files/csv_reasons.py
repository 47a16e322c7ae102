"""The reason why a text of a CSV does not fit its column, and the way to read it.

12.500,00     say --decimal , --thousands .
12,50 EUR     leave 'EUR' out of the file
30.06.2026    say --date-format '%d.%m.%Y'
n/a           say --null n/a
"""

from __future__ import annotations

import shlex

import pyarrow as pa

from psoup_cli.files.number_form import PLAIN, NumberForm, number_advice
from psoup_client.columns.decimals import is_number
from psoup_client.columns.misfits import date_advice
from psoup_proto.csv_rows.faults import encoding_of
from psoup_proto.csv_rows.field import CsvField

_TRUTHS = "true or false, t or f, yes or no, y or n, 1 or 0"

_SHOWN = 100
_WORD = 24
"""The greatest length of a text that may stand for NULL."""


def reason_of(value: bytes, field: CsvField) -> str:
    """Describe the fault of a value, and the way out."""
    try:
        shown = repr(value.decode()[:_SHOWN])
    except UnicodeDecodeError:
        shown = repr(value[:_SHOWN])[1:]  # the form of a bytes literal, without the b
    shown += "…" if len(value) > _SHOWN else ""
    place = f"column {field.name!r}, {shown}"
    try:
        text = value.decode().strip()
    except UnicodeDecodeError as problem:
        byte, other = value[problem.start : problem.end], encoding_of(value[problem.start])
        return f"{place}: byte {byte.hex(' ')} is not utf-8; say what the file is in, for instance --encoding {other}"
    return f"{place}: {_fault(text, field)}"


def _fault(text: str, field: CsvField) -> str:
    form = _form_of(field)
    plain = form.plain_text(text) if field.form else text
    invalid = f"it is not a valid {field.sql}"
    if pa.types.is_decimal(field.arrow) and is_number(plain):
        return f"it has more digits than {field.sql} holds; round it"
    if field.sql == "BOOLEAN":
        return f"{invalid}; write {_TRUTHS}; {_null(text)}"
    if field.sql == "DATE":
        return f"{invalid}; {date_advice(text, field.sql, field.arrow) if _has_digit(text) else _null(text)}"
    if pa.types.is_floating(field.arrow) and _is_number(plain):
        return "it is too large for a DOUBLE; write inf if it stands for infinity"
    whole = bool(pa.types.is_integer(field.arrow))
    if whole and plain.lstrip("+-").isdigit():
        return f"{invalid}; {'leave its sign out' if plain.startswith('+') else 'it is out of the range of 64 bits'}"
    advice = number_advice(text, form, whole=whole)
    if not advice and whole and _is_fraction(text, form):
        return f"{invalid}; round it, or make the column DECIMAL"
    if not advice and _has_digit(text) and not text.strip("+-0123456789.,'\u2019\u00a0\u202f "):
        advice = "its separators are not where a number has them; correct it"
    return f"{invalid}; {advice or _null(text)}"


def _form_of(field: CsvField) -> NumberForm:
    return field.form if isinstance(field.form, NumberForm) else PLAIN


def _null(text: str) -> str:
    """Advise the option that reads the text as NULL."""
    word = f" {shlex.quote(text)}" if text and text.isprintable() and len(text) <= _WORD else ""
    return f"if that stands for NULL, say --null{word}" if word else "if that stands for NULL, name it with --null"


def _has_digit(text: str) -> bool:
    return any(letter.isdigit() for letter in text)


def _is_fraction(text: str, form: NumberForm) -> bool:
    return _has_digit(text) and (form.matches(text) or number_advice(text, form, whole=False) != "")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
