"""Pages of Parquet files that hold whole numbers as differences (DELTA_BINARY_PACKED), all of them valid.

    page      header | levels | first value | block | block …           header: a Thrift struct, in compact form
    block     least difference | widths of its parts | parts            part: so many numbers of one width in bits
    values    7 9 8 12  =  7, then 2 -1 4  =  7, then least -1 and 3 0 5 in 3 bits each

The common library takes three times as long, and new memory each time.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.compile.inner import inner

KIND, PLAIN_SIZE, SIZE, CRC, COUNT, ENCODING, LEVELS, FACTS = range(8)
"""The places of the facts of a page: see `page_facts`."""
_I32, _I64, _BINARY, _STRUCT = 5, 6, 8, 12
_MOST_VALUES, _MOST_PARTS = 1 << 20, 64
_SLACK = 16
_WIDEST, _DEEP = 57, 99
_U1, _U3, _U6, _U7, _U63 = map(np.uint64, (1, 3, 6, 7, 63))


@inner
def _varint(data, at, end):
    """The number at a place, and where the next begins; beyond `end` if it is cut off or too long."""
    value, shift = np.uint64(0), np.uint64(0)
    while at < end and shift < np.uint64(70):
        byte = np.uint64(data[at])
        at += 1
        value |= (byte & np.uint64(127)) << (shift & _U63)
        if byte < np.uint64(128):
            return value, at
        shift += np.uint64(7)
    return value, end + 1


@inner
def _signed(value):
    """The number that a zigzag varint stands for."""
    return np.int64(value >> _U1) ^ -np.int64(value & _U1)


@njit(cache=True, nogil=True)
def page_facts(data, at, end, facts):
    """Read the header of a page; returns the first byte of its body, or -1 for another form.

    data: uint8[m], the header at [at, end), read. facts: int64[FACTS], written: the kind of page (0: data), its bytes
    when decompressed and as they are, their checksum (CRC-32; -1: none), and of a data page the number of its values,
    and the encodings of these and of their levels. O(bytes of the header).
    """
    facts[:] = -1
    field, inside, depth = np.int64(0), np.int64(0), 0
    while at < end:
        head = np.int64(data[at])
        at += 1
        if head == 0:
            if depth == 0:
                return at
            depth -= 1
            field = inside if depth == 0 else np.int64(_DEEP)
            continue
        kind, step = head & 15, head >> 4
        field += step
        if step == 0 or kind not in (1, 2, _I32, _I64, _BINARY, _STRUCT):
            return -1
        if kind == _STRUCT:
            if depth == 0:
                inside = field
            depth, field = depth + 1, np.int64(0)
        elif kind > 2:
            number, at = _varint(data, at, end)
            if kind == _BINARY:
                if number > np.uint64(end):
                    return -1
                at += np.int64(number)
            elif depth == 0 and 1 <= field <= 4:
                facts[field - 1] = _signed(number)
                if field - 1 == CRC:
                    facts[CRC] &= 0xFFFF_FFFF
            elif depth == 1 and inside == 5 and 1 <= field <= 3:
                facts[COUNT + field - 1] = _signed(number)
    return -1


@inner
def _all_valid(data, at, end, count):
    """The end of the levels at a place, if they say that `count` values are all valid; else a place beyond `end`."""
    if at + 4 > end:
        return end + 1
    size = np.int64(0)
    for k in range(4):
        size |= np.int64(data[at + k]) << (8 * k)
    at += 4
    run, after = _varint(data, at, end)
    if after + 1 > end or run != np.uint64(count) << _U1 or data[after] != 1 or after + 1 - at != size:
        return end + 1
    return after + 1


@inner
def _word(data, at):
    """Eight bytes from any place on, as a little-endian number: one instruction."""
    word = np.uint64(0)
    for k in range(8):
        word |= np.uint64(data[at + np.uint64(k)]) << np.uint64(8 * k)
    return word


@inner
def _unpack(words, at, width, minimum, value, count, out, first):
    """Write `count` values of one part, whose differences begin at byte `at`; returns the last of them."""
    size, bit, place = np.uint64(width), np.uint64(8 * at), np.uint64(first)
    if width <= _WIDEST:
        data, mask = words.view(np.uint8), (_U1 << size) - _U1
        for _ in range(count):
            value += minimum + np.int64((_word(data, bit >> _U3) >> (bit & _U7)) & mask)
            out[place] = value
            bit, place = bit + size, place + _U1
        return value
    mask = (_U1 << size) - _U1 if width < 64 else ~np.uint64(0)
    for _ in range(count):
        word, shift = bit >> _U6, bit & _U63
        both = (words[word] >> shift) | (words[word + _U1] << _U1 << (_U63 - shift))
        value += minimum + np.int64(both & mask)
        out[place] = value
        bit, place = bit + size, place + _U1
    return value


@njit(cache=True, nogil=True)
def unpack_deltas(words, size, levels, count, out):
    """Write the values of a decompressed page; returns whether it is one of `count` valid ones in the known form.

    words: uint64[m], the page in its first `size` bytes, and 16 bytes or more behind it; read. levels: whether levels
    precede the values. out: int64[count], written, arbitrary if the result is False. Sums wrap. O(count).
    """
    data = words.view(np.uint8)
    if size < 0 or size + _SLACK > data.shape[0]:
        return False
    at = _all_valid(data, 0, size, count) if levels else np.int64(0)
    block, at = _varint(data, at, size)
    parts, at = _varint(data, at, size)
    total, at = _varint(data, at, size)
    first, at = _varint(data, at, size)
    if at > size or count < 1 or total != np.uint64(count):
        return False
    if block > np.uint64(_MOST_VALUES) or parts < _U1 or parts > np.uint64(_MOST_PARTS) or block % parts:
        return False
    rows, number = np.int64(block // parts), np.int64(parts)
    if rows < 8 or rows % 8:
        return False
    value, done = _signed(first), np.int64(1)
    out[0] = value
    while done < count:
        minimum, at = _varint(data, at, size)
        widths, at = at, at + number
        if at > size:
            return False
        for part in range(number):
            if done >= count:
                break
            width = np.int64(data[widths + part])
            if width > 64 or at + width * (rows // 8) > size:
                return False
            here = min(rows, count - done)
            value = _unpack(words, at, width, _signed(minimum), value, here, out, done)
            at, done = at + width * (rows // 8), done + here
    return True
