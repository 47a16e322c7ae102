"""Twins of `psoup.kernels.postgres.quotes`."""

from __future__ import annotations

from psoup.kernels.plain import Array
from psoup.kernels.plain.postgres import put, taken


def escaped_texts(offsets: Array, data: Array, letters: Array, ends: Array, out: Array) -> int:
    """See the kernel."""
    written = {byte: bytes([92, letters[byte]]) if letters[byte] else bytes([byte]) for byte in range(256)}
    return put((b"".join(written[byte] for byte in text) for text in taken(offsets, data)), ends, out)


def quoted_texts(
    offsets: Array,
    data: Array,
    marks: Array,
    escape: int,
    quote: int,
    null: Array,
    dot: bool,
    ends: Array,
    out: Array,
) -> int:
    """See the kernel."""
    before, mark = bytes([escape]), bytes([quote])

    def quoted(text: bytes) -> bytes:
        if text != null.tobytes() and not any(marks[byte] for byte in text) and not (dot and text == b"\\."):
            return text
        if escape != quote:
            text = text.replace(before, before + before)
        return mark + text.replace(mark, before + mark) + mark

    return put(map(quoted, taken(offsets, data)), ends, out)
