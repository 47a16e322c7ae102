"""Log sequence numbers of PostgreSQL (LSN): places in its write-ahead log, in the form in which PostgreSQL writes them.

>>> lsn_of("16/B374D848"), text_of(97_500_059_720)
(97500059720, '16/B374D848')
"""

from __future__ import annotations


def lsn_of(text: str) -> int:
    """Parse the text of an LSN. Raises ValueError for another text."""
    high, slash, low = text.partition("/")
    if not slash:
        raise ValueError(f"{text!r} is not an LSN of PostgreSQL, such as 16/B374D848")
    return (int(high, 16) << 32) + int(low, 16)


def text_of(lsn: int) -> str:
    """Write an LSN as PostgreSQL does."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
