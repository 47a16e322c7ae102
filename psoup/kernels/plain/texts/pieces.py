"""Twins of `psoup.kernels.texts.pieces`."""

from __future__ import annotations

from itertools import pairwise

from psoup.kernels.plain import Array


def _texts(ends: Array, data: Array) -> list[bytes]:
    return [data[first:stop].tobytes() for first, stop in pairwise(ends.tolist())]


def reverse_texts(ends: Array, data: Array, out: Array) -> None:
    """See the kernel."""
    base = int(ends[0])
    for (first, stop), text in zip(pairwise(ends.tolist()), _texts(ends, data), strict=True):
        out[first - base : stop - base] = list(text.decode()[::-1].encode())


def first_letters(ends: Array, data: Array, nothing: int, out: Array) -> None:
    """See the kernel."""
    out[:] = [ord(text.decode()[0]) if text else nothing for text in _texts(ends, data)]


def find_pieces(
    ends: Array, data: Array, between: Array, parts: Array, numbers: Array, begin: Array, stop: Array
) -> None:
    """See the kernel."""
    for i, (text, part) in enumerate(zip(_texts(ends, data), _texts(between, parts), strict=True)):
        begin[i] = stop[i] = ends[i]
        pieces = text.split(part) if part else []
        at = int(numbers[i]) - 1 if numbers[i] > 0 else int(numbers[i]) + len(pieces)
        if numbers[i] and 0 <= at < len(pieces):
            begin[i] += sum(len(piece) + len(part) for piece in pieces[:at])
            stop[i] = begin[i] + len(pieces[at])


def splice_texts(
    ends: Array, data: Array, begins: Array, stops: Array, between: Array, parts: Array, out_ends: Array, out: Array
) -> None:
    """See the kernel."""
    constants = _texts(between, parts)
    for i, text in enumerate(_texts(ends, data)):
        first, stop = int(out_ends[i]), int(out_ends[i + 1])
        if first == stop:
            continue
        (begin, *starts), (end, *later_ends) = begins[:, i].tolist(), stops[:, i].tolist()
        if begin < 0:
            out[first:stop] = list(text)
            continue
        made = constants[0]
        for start, other, constant in zip(starts, later_ends, constants[1:], strict=True):
            made += text[start:other] + constant
        out[first:stop] = list(text[:begin] + made + text[end:])


def padded_sizes(
    ends: Array, data: Array, between: Array, parts: Array, wanted: Array, text_bytes: Array, sizes: Array
) -> None:
    """See the kernel."""
    for i, (text, part) in enumerate(zip(_texts(ends, data), _texts(between, parts), strict=True)):
        letters = text.decode()
        missing = max(int(wanted[i]) - len(letters), 0)
        text_bytes[i] = len(letters[: int(wanted[i])].encode())
        filling = part.decode() * missing
        sizes[i] = text_bytes[i] + len(filling[:missing].encode()) if filling or not missing else -1


def pad_texts(
    ends: Array, data: Array, between: Array, parts: Array, text_bytes: Array, left: bool, out_ends: Array, out: Array
) -> None:
    """See the kernel."""
    for i, (text, part) in enumerate(zip(_texts(ends, data), _texts(between, parts), strict=True)):
        first, stop = int(out_ends[i]), int(out_ends[i + 1])
        if first < stop:
            missing = stop - first - int(text_bytes[i])
            filling = (part * missing)[:missing]
            text = text[: text_bytes[i]]
            out[first:stop] = list(filling + text if left else text + filling)
