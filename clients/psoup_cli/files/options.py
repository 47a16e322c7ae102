"""Options of files of rows on the command line."""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field

from psoup_client.columns.casts import TimeOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """Options of reading files. Raises ValueError that names the option at fault."""

    nulls: tuple[str, ...] = ()
    """Texts of a CSV that stand for NULL, beside an empty field."""

    delimiter: str | None = None
    """The delimiter of a CSV, one character; None: it is detected."""

    quote: str | None = None
    """The quote of a CSV, one character; "": no quotes; None: it is detected."""

    encoding: str | None = None
    """The encoding of a text; None: UTF-8, or what its first bytes say."""

    header: bool = True
    """Whether the first line of a CSV names its columns."""

    ignore_extra: bool = False
    """Whether columns that the stream does not have are left out."""

    times: TimeOptions = field(default_factory=TimeOptions)
    """The format of times that are not in ISO 8601."""

    def __post_init__(self) -> None:
        for name, given in (("--delimiter", self.delimiter), ("--quote", self.quote)):
            if given is None or (name == "--quote" and not given):
                continue
            if len(given) != 1 or not given.isascii() or given in "\r\n\0":
                raise ValueError(f"{name} {given!r}: give one ASCII character")
        if self.quote and self.quote == (self.delimiter or ""):
            raise ValueError(f"--quote and --delimiter are both {self.quote!r}; give two characters")
        if self.encoding is not None:
            _check_encoding(self.encoding)


def _check_encoding(name: str) -> None:
    try:
        is_text = codecs.lookup(name)._is_text_encoding
    except LookupError:
        is_text = False
    if not is_text:
        raise ValueError(
            f"--encoding {name!r} is not a known encoding; use utf-8, utf-16, latin-1 or cp1252, for instance"
        )
