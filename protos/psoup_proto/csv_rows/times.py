"""Instants of texts in ISO 8601."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

INSTANT = pa.timestamp("us", tz="UTC")

ZONED = r"(\d\s*[Zz]|:\d{2}([.,]\d+)?\s*[+-]\d{2}(:?\d{2})?)\s*$"
"""Pattern of a time's text that ends in a zone. The -01 of 2024-05-01 does not match."""


def instants_of_iso(
    text: pa.Array | pa.ChunkedArray, localize: Callable[[Any], Any] | None = None
) -> pa.Array | pa.ChunkedArray:
    """Parse ISO 8601 texts. Digits below a microsecond have to be 0. Raises ArrowInvalid for another text.

    `localize`: converts times without a zone to instants; None: they are in UTC.
    """
    import pyarrow.compute as pc

    zoned = pc.match_substring_regex(text, ZONED)
    with_zone = pc.if_else(zoned, text, pa.scalar(None, pa.string()))
    without = pc.if_else(zoned, pa.scalar(None, pa.string()), text)
    try:
        local = without.cast(pa.timestamp("us"))
        instants = pc.coalesce(with_zone.cast(INSTANT), local.cast(INSTANT) if localize is None else localize(local))
    except pa.ArrowInvalid:
        short = pc.replace_substring_regex(text, r"(\.\d{6})0+", r"\1")
        if short.equals(text):
            raise
        return instants_of_iso(short, localize)
    return instants
