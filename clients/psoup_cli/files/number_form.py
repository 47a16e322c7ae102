"""The form of a CSV's numbers: the decimal separator and the thousands separator.

    --decimal , --thousands .     1.234,50   ──>  1234.50
    --thousands ' '               12 500     ──>  12500       no-break spaces are read as spaces
    neither                       12,500.00  ──>  refused, with the options that read it

A separator in a wrong place is refused: with --thousands , the text 1,00 is not a number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

DECIMALS = (".", ",")
"""The decimal separators that an option may name."""
THOUSANDS = (",", ".", "'", " ", "_")
"""The thousands separators that an option may name."""

_VARIANTS = {" ": " \u00a0\u202f\u2009", "'": "'\u2019"}
"""Characters that are read as the given separator: no-break and thin spaces, and the typographic apostrophe."""

_WORDS = "(?:[iI][nN][fF](?:[iI][nN][iI][tT][yY])?|[nN][aA][nN])"


@dataclass(frozen=True)
class NumberForm:
    """The separators of numbers. `thousands` is "" if numbers have no such separator."""

    decimal: str = "."
    thousands: str = ""

    @cached_property
    def pattern(self) -> str:
        """A pattern that matches every number of this form, with blanks around it."""
        whole = "[0-9]+"
        if self.thousands:
            mark = f"[{_VARIANTS.get(self.thousands, re.escape(self.thousands))}]"
            whole = f"(?:[0-9]{{1,3}}(?:{mark}[0-9]{{2,3}})*{mark}[0-9]{{3}}|[0-9]+)"
        point = re.escape(self.decimal)
        number = f"(?:{whole}(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][+-]?[0-9]{{1,9}})?"
        return rf"^[ \t]*[+-]?(?:{number}|{_WORDS})[ \t]*$"

    def matches(self, text: str) -> bool:
        """Whether the text is a number of this form."""
        return re.search(self.pattern, text.strip()) is not None

    def plain(self, text: pa.Array | pa.ChunkedArray) -> Any:
        """Write numbers with a point and without thousands. Raises ArrowInvalid for another text. O(bytes)."""
        import pyarrow.compute as pc

        if pc.any(pc.invert(pc.match_substring_regex(text, self.pattern))).as_py():
            raise pa.ArrowInvalid("not a number of this form")
        if self.thousands:
            text = pc.replace_substring_regex(text, f"[{_VARIANTS.get(self.thousands, re.escape(self.thousands))}]", "")
        if self.decimal != ".":
            text = pc.replace_substring(text, self.decimal, ".")
        return pc.replace_substring_regex(text, r"^[ \t]*\+|[ \t]+", "")

    def plain_text(self, text: str) -> str:
        """Write one number with a point and without thousands. Another text is returned unchanged."""
        return str(self.plain(pa.array([text]))[0]) if self.matches(text) else text

    def options_from(self, current: NumberForm) -> str:
        """Return the options of a command that reads this form, if it reads `current` now."""
        said = []
        if self.decimal != current.decimal:
            said.append(f"--decimal {self.decimal}")
        if self.thousands != current.thousands:
            shown = {" ": "' '", "'": '"\'"'}.get(self.thousands, self.thousands)
            said.append(f"--thousands {shown}")
        return " ".join(said)


PLAIN = NumberForm()
"""Numbers with a point and without thousands."""


def form_of(decimal: str | None, thousands: str | None) -> NumberForm:
    """Build the form for two options. The decimal separator is a comma by default if the other one is a point.

    Raises ValueError that names the wrong option.
    """
    if decimal is not None and decimal not in DECIMALS:
        raise ValueError(f"--decimal {decimal!r}: give . or ,")
    if thousands is not None and thousands not in THOUSANDS:
        raise ValueError(f"--thousands {thousands!r}: give one of , . ' _ or a blank in quotes")
    decimal = decimal or ("," if thousands == "." else ".")
    if decimal == thousands:
        raise ValueError(f"--decimal and --thousands are both {decimal!r}; give two characters")
    return NumberForm(decimal, thousands or "")


_FORMS = tuple(NumberForm(decimal, mark) for mark in ("", *THOUSANDS) for decimal in DECIMALS if decimal != mark)

_UNIT = re.compile(r"[^\d.,'\u2019\s+\-()_]+")
"""Pattern of a currency sign, a unit or another word beside a number."""


def number_advice(text: str, current: NumberForm, *, whole: bool) -> str:
    """Describe how to read a text that is not a number in the `current` form, or how to change it.

    `whole`: the column takes whole numbers only. Returns "" if the text is not like a number.
    """
    core, changes = _without_unit(text.strip())
    forms = [form for form in _FORMS if _needs(form, core) and _reads(form, core, whole)]
    if not forms:
        return ""
    return " and ".join([*changes, *([] if _reads(current, core, whole) else [_ways(forms, core, current)])])


def _ways(forms: list[NumberForm], text: str, current: NumberForm) -> str:
    """Write the options for the forms that read a text, each with the number that it makes of the text."""
    if current != PLAIN:  # the other rows have the current form: only a second option can fit them, too
        forms = [form for form in forms if form.decimal == current.decimal and not current.thousands]
    ways = {form.plain_text(text): form.options_from(current) for form in reversed(forms)}
    if not ways:
        return f"write it as {current.options_from(PLAIN)} reads it"
    if len(ways) == 1:
        return f"say {next(iter(ways.values()))}"
    return ", or ".join(f"say {way} if it is {number}" for number, way in ways.items())


def _reads(form: NumberForm, text: str, whole: bool) -> bool:
    """Whether the form reads the text as a number that the column takes."""
    return form.matches(text) and (not whole or form.plain_text(text).lstrip("+-").isdigit())


def _needs(form: NumberForm, text: str) -> bool:
    """Whether the text has each separator of the form that is not the default."""
    marks = _VARIANTS.get(form.thousands, form.thousands)
    return not (marks and not any(mark in text for mark in marks)) and (marks != "" or form.decimal in "." + text)


def _without_unit(text: str) -> tuple[str, list[str]]:
    """Return the number in a text, and the changes of the file that leave only this number."""
    changes = list[str]()
    unit = _UNIT.search(text)
    if unit and len(unit[0]) <= 3:
        core = (text[: unit.start()] + text[unit.end() :]).strip()
        if re.search(r"\d", core) and not re.search(r"\d[eE]\d", text):
            text, changes = core, [f"leave {unit[0]!r} out of the file"]
    if text.startswith("(") and text.endswith(")"):
        return text[1:-1].strip(), [*changes, "write - instead of the brackets"]
    if text.endswith("-") and not text.startswith("-"):
        return text[:-1].strip(), [*changes, "write the sign before the number"]
    sign = re.match(r"([+-])\s+", text)
    if sign:
        return text[: sign.end(1)] + text[sign.end() :], [*changes, "leave the blank after the sign out"]
    return text, changes
