"""The form of the data of a COPY: its format and the options of the statement.

COPY … WITH (FORMAT csv, HEADER, DELIMITER ';')  ──>  CopyForm("csv", delimiter=";", null="", header=True)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from psoup.errors import InvalidInput
from psoup_service.pg.contract import BINARY, TEXT

_DEFAULTS = {"text": ("\t", "\\N"), "csv": (",", ""), "binary": ("\t", "\\N")}
_BAD_DELIMITERS = "\\.abcdefghijklmnopqrstuvwxyz0123456789"
_YES, _NO = ("true", "on", "1", ""), ("false", "off", "0")


@dataclass(frozen=True, slots=True)
class CopyForm:
    """The form of data. `name`: "text", "csv" or "binary". The quote and the escape belong to CSV."""

    name: str = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    header: bool = False
    quote: str = '"'
    escape: str = '"'

    @property
    def code(self) -> int:
        """The format in the message that begins a COPY: TEXT, also for CSV, or BINARY."""
        return BINARY if self.name == "binary" else TEXT

    @staticmethod
    def of(options: Mapping[str, str]) -> CopyForm:
        """The form for the options of a statement, by their names in lower case. Raises InvalidInput.

        An option without a value, such as HEADER, has the value "".
        """
        name = options.get("format", "text").lower()
        if name not in _DEFAULTS:
            raise _wrong(f'COPY format "{name}" not recognized; write text, csv or binary')
        names = {"format", "encoding", "freeze", "delimiter", "null", "header", "quote", "escape"}
        for option in options:
            if option not in names:
                raise _wrong(f'option "{option}" not recognized; COPY takes {", ".join(sorted(names))}')
            if option in ("quote", "escape") and name != "csv":
                raise _wrong(f"COPY {option} available only in CSV mode")
            if option in ("delimiter", "null", "header") and name == "binary":
                raise _wrong(f"cannot specify {option.upper()} in BINARY mode")
        if options.get("encoding", "utf8").lower().replace("-", "") not in ("utf8", "unicode"):
            raise _wrong(f'encoding "{options["encoding"]}" is not supported; send UTF8')
        delimiter, null = _DEFAULTS[name]
        quote = options.get("quote", '"')
        form = CopyForm(
            name,
            options.get("delimiter", delimiter),
            options.get("null", null),
            _truth(options["header"]) if "header" in options else False,
            quote,
            options.get("escape", quote),
        )
        form._check()
        return form

    def _check(self) -> None:
        for option, value in (("delimiter", self.delimiter), ("quote", self.quote), ("escape", self.escape)):
            if len(value.encode()) != 1 or value in "\r\n\0":
                raise _wrong(f"COPY {option} must be a single one-byte character, and not a line break")
        if self.name == "text" and self.delimiter in _BAD_DELIMITERS:
            raise _wrong(f'COPY delimiter cannot be "{self.delimiter}"')
        if self.name == "csv" and self.delimiter == self.quote:
            raise _wrong("COPY delimiter and quote must be different")
        if any(letter in self.null for letter in "\r\n\0"):
            raise _wrong("COPY null representation cannot use newline or carriage return")
        if self.name != "binary" and self.delimiter in self.null:
            raise _wrong("COPY delimiter character must not appear in the NULL specification")
        if self.name == "csv" and self.quote in self.null:
            raise _wrong("CSV quote character must not appear in the NULL specification")


def _truth(value: str) -> bool:
    if value.lower() in _YES + _NO:
        return value.lower() in _YES
    raise _wrong(f'header requires a Boolean value, and not "{value}"')


def _wrong(why: str) -> InvalidInput:
    return InvalidInput(why, reason="INVALID_PARAMETER_VALUE")
