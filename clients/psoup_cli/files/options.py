"""The options for reading files of rows, from the command line."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, field

from psoup_cli.files.number_form import PLAIN, NumberForm
from psoup_client.columns.casts import TimeOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """The options for reading files. Raises ValueError that names the wrong option."""

    nulls: tuple[str, ...] = ()
    """Texts of a CSV that mean NULL, besides an empty field."""

    delimiter: str | None = None
    """The delimiter of a CSV, one character. None: detect it."""

    quote: str | None = None
    """The quote of a CSV, one character. "": no quotes. None: detect it."""

    encoding: str | None = None
    """The encoding of a text. None: the one that its first bytes mark, else UTF-8."""

    header: bool = True
    """Whether the first line of a CSV names its columns."""

    ignore_extra: bool = False
    """Whether to leave out columns that the stream does not have."""

    numbers: NumberForm = PLAIN
    """The separators of a CSV's numbers."""

    renames: tuple[tuple[str, str], ...] = ()
    """The column for each field of the file that has another name."""

    times: TimeOptions = field(default_factory=TimeOptions)
    """The formats of times that are not in ISO 8601."""

    def __post_init__(self) -> None:
        for name, given in (("--delimiter", self.delimiter), ("--quote", self.quote)):
            if given is None or (name == "--quote" and not given):
                continue
            if len(given) != 1 or not given.isascii() or given in "\r\n\0":
                raise ValueError(f"{name} {given!r}: give one ASCII character")
        if self.quote and self.quote == (self.delimiter or ""):
            raise ValueError(f"--quote and --delimiter are both {self.quote!r}; give two characters")
        _check_renames(self.renames, self.header)
        if self.encoding is not None:
            _check_encoding(self.encoding)


def renames_of(given: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Split texts such as "Amount (EUR)=amount" into field and column. Raises ValueError."""
    pairs = [(name.strip(), column.strip()) for name, _, column in (text.rpartition("=") for text in given)]
    for text, pair in zip(given, pairs, strict=True):
        if not all(pair):
            raise ValueError(f"--rename {text!r}: give the file's name and the column, as in 'Amount (EUR)=amount'")
    return tuple(pairs)


def _check_renames(renames: Sequence[tuple[str, str]], header: bool) -> None:
    if renames and not header:
        raise ValueError("--rename needs names in the file, and --no-header says that it has none")
    for role, names in (("field", [name for name, _ in renames]), ("column", [column for _, column in renames])):
        twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
        if twice is not None:
            raise ValueError(f"--rename names the {role} {twice!r} twice; give it once")


def _check_encoding(name: str) -> None:
    try:
        is_text = codecs.lookup(name)._is_text_encoding
    except LookupError:
        is_text = False
    if not is_text:
        raise ValueError(
            f"--encoding {name!r} is not a known encoding; use utf-8, utf-16, latin-1 or cp1252, for instance"
        )
