"""Faults of a CSV, and of the lines of a text."""

from __future__ import annotations

import re


class CsvFault(ValueError):
    """Raised for a text that cannot be read as rows. The message names options of `psoup push` that help.

    `reason`: the reason for programs. `line`: the line of the fault, 0 for the whole text.
    """

    def __init__(self, message: str, reason: str = "", line: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.line = line


def not_in(encoding: str, line: int, fault: str) -> CsvFault:
    """Build the fault for bytes that are invalid in an encoding. `fault`: the bytes, such as "byte e9"."""
    return CsvFault(f"line {line}: {invalid_text(encoding, fault)}", "NOT_IN_ENCODING", line)


def invalid_text(encoding: str, fault: str) -> str:
    """Return the message of `not_in` without the line."""
    byte = re.match(r"byte ([0-9a-f]{2})", fault)
    if encoding == "utf-8" and byte:
        other = encoding_of(int(byte[1], 16))
    else:
        other = "latin-1" if encoding.lower().replace("_", "-") not in ("latin-1", "iso8859-1") else "utf-8"
    return f"{fault} is not {encoding}; say what the file is in, for instance --encoding {other}"


def encoding_of(byte: int) -> str:
    """Return the likely encoding of a text with this byte, which is not UTF-8.

    The encoding of Windows has all letters of Latin-1, and also the euro sign.
    """
    return "latin-1" if byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D) else "cp1252"
