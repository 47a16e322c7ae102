"""Rows of many chunks into the body of one Arrow record batch, column by column; nothing in between.

    rows     0 7 9 | 3 4 | 1        offsets in chunk 0, in chunk 1, in chunk 2; stops = 3 5 6
    sources  where the arrays of each chunk lie: (values, validity, text) for each column
    out      [validity bits][values] [offsets][text] …            each at a multiple of 8 bytes

Arrays are named by address, as their number varies; the caller keeps them alive. The form of a column is its kind: see
the constants.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import carray, njit, types  # type: ignore[attr-defined]
from numba.core import cgutils
from numba.extending import intrinsic

WIDE, NARROW, BITS, DECIMAL, TEXT, NUMBER = 0, 1, 2, 3, 4, 5
"""8 bytes as they are; 4 bytes as they are; a byte to a bit; int64 to 16 bytes; text; the tuple ID, from no array."""

_U1, _U2, _U3, _U4 = map(np.uint64, range(1, 5))

PARTS = 3
"""Numbers for each column in `sources`: the addresses of the values (of a tuple ID: the first one), the validity
(uint8, 0: all valid), and the text. Without a text, the third number is the address of `CODED` numbers of values in few
bits, else 0. For the tuple ID, it is the address of the places (uint16) that a thinned chunk has left, else 0."""

CODED = 3
"""Of values without NULL in few bits: the address of their codes, how many bytes each has (1, 2, 4), what 0 is."""


@intrinsic
def _pointer(_, address):
    """An address as a pointer."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(address), generate


@njit(cache=True, nogil=True, inline="always")
def _longs(address, size):
    return carray(_pointer(address), size, np.int64)


@njit(cache=True, nogil=True, inline="always")
def _bytes(address, size):
    return carray(_pointer(address), size, np.uint8)


@njit(cache=True, nogil=True, inline="always")
def _nth(column, stride):
    """The place of a column; pseudo-columns count from the end."""
    return column if column >= 0 else stride // PARTS + column


@njit(cache=True, nogil=True)
def text_bytes(column, sources, stride, rows, stops):
    """The bytes of some texts together.

    column: its place in the schema. sources: int64[chunks * stride]. rows: int64[k], stops: int64[chunks]; read. O(k).
    """
    total, start = np.int64(0), np.int64(0)
    for part in range(stops.shape[0]):
        stop = stops[part]
        if start < stop:
            ends = _longs(sources[part * stride + PARTS * _nth(column, stride)], rows[stop - 1] + 2)
            for i in range(start, stop):
                total += ends[rows[i] + 1] - ends[rows[i]]
        start = stop
    return total


@njit(cache=True, nogil=True)
def has_nulls(columns, sources, stride, parts, nullable):
    """Set nullable[i] to whether any chunk has validity for columns[i].

    columns: int64[c], places in the schema; sources: int64[parts * stride], read. nullable: uint8[c], written.
    """
    for i in range(columns.shape[0]):
        nullable[i] = 0
        for part in range(parts):
            nullable[i] |= np.uint8(sources[part * stride + PARTS * _nth(columns[i], stride) + 1] != 0)


@njit(cache=True, nogil=True)
def gather_bits(column, field, sources, stride, rows, stops, out):
    """A bit for each row: of BOOLEAN values (field 0) or of validity (field 1; a chunk without it is all valid).

    sources, rows, stops: see `gather`. out: uint8[(k + 7) / 8], written. Returns the number of ones. O(k).
    """
    out[:] = 0
    ones, start = np.int64(0), np.int64(0)
    for part in range(stops.shape[0]):
        stop = stops[part]
        address = sources[part * stride + PARTS * _nth(column, stride) + field]
        if start < stop:
            flags = _bytes(address, rows[stop - 1] + 1)
            for i in range(start, stop):
                bit = np.uint8(1) if address == 0 else np.uint8(flags[rows[i]] != 0)
                out[i >> 3] |= np.uint8(bit << np.uint8(i & 7))
                ones += np.int64(bit)
        start = stop
    return ones


@njit(cache=True, nogil=True)
def _gather_text(column, sources, stride, rows, stops, offsets, text):
    """Write texts one behind the other; offsets: int32[k + 1], text: uint8[bytes], written."""
    place, start = np.int64(0), np.int64(0)
    offsets[0] = 0
    for part in range(stops.shape[0]):
        stop = stops[part]
        if start < stop:
            at = part * stride + PARTS * _nth(column, stride)
            ends = _longs(sources[at], rows[stop - 1] + 2)
            data = _bytes(sources[at + 2], ends[rows[stop - 1] + 1])
            for i in range(start, stop):
                first, last = ends[rows[i]], ends[rows[i] + 1]
                for j in range(first, last):
                    text[place] = data[j]
                    place += 1
                offsets[i + 1] = place
        start = stop


@njit(cache=True, nogil=True)
def take_texts(ends, data, rows, offsets, text):
    """Write texts one behind the other, in any order.

    ends: int64[n + 1], the ends of the texts of a column in data: uint8[bytes]; rows: int64[k], places in the
    column; read. offsets: int64[k + 1], where the taken ones begin and end, filled; text: uint8[offsets[k]], written.
    O(k + bytes).
    """
    for i in range(rows.shape[0]):
        first, place = ends[rows[i]], offsets[i]
        for j in range(offsets[i + 1] - place):
            text[place + j] = data[first + j]


@njit(cache=True, nogil=True, inline="always")
def _copy(source, rows, start, stop, out):
    """out[i] = source[rows[i]] from start to stop; four at a time, so that four cache misses are under way."""
    i, even, end = np.uint64(start), np.uint64(start + ((stop - start) & ~3)), np.uint64(stop)
    while i < even:  # unsigned, or each would be asked whether it counts from the end
        a, b = source[np.uint64(rows[i])], source[np.uint64(rows[i + _U1])]
        c, d = source[np.uint64(rows[i + _U2])], source[np.uint64(rows[i + _U3])]
        out[i], out[i + _U1], out[i + _U2], out[i + _U3] = a, b, c, d
        i += _U4
    while i < end:
        out[i] = source[np.uint64(rows[i])]
        i += _U1


@njit(cache=True, nogil=True)
def _decode(coded, rows, start, stop, out):
    """out[i] = the value of rows[i], from its code: an eighth to a half of the memory to read."""
    table = _longs(coded, CODED)
    address, width, minimum, size = table[0], table[1], table[2], rows[stop - 1] + 1
    if width == 1:
        codes = _bytes(address, size)
        for i in range(np.uint64(start), np.uint64(stop)):
            out[i] = minimum + np.int64(codes[np.uint64(rows[i])])
    elif width == 4:
        longer = carray(_pointer(address), size, np.uint32)
        for i in range(np.uint64(start), np.uint64(stop)):
            out[i] = minimum + np.int64(longer[np.uint64(rows[i])])
    else:
        wide = carray(_pointer(address), size, np.uint16)
        for i in range(np.uint64(start), np.uint64(stop)):
            out[i] = minimum + np.int64(wide[np.uint64(rows[i])])


@njit(cache=True, nogil=True)
def _gather_fixed(kind, column, sources, stride, rows, stops, values):
    """Values of 4, 8 or 16 bytes; `values`: their address in the result, a multiple of 8."""
    total = rows.shape[0]
    longs, start = _longs(values, 2 * total), np.int64(0)
    ints = carray(_pointer(values), total, np.int32)
    for part in range(stops.shape[0]):
        stop = stops[part]
        at = part * stride + PARTS * _nth(column, stride)
        address, coded = sources[at], sources[at + 2]
        if start < stop:
            size = rows[stop - 1] + 1
            source = _longs(address, size)
            if kind == WIDE and coded:
                _decode(coded, rows, start, stop, longs)
            elif kind == WIDE:
                _copy(source, rows, start, stop, longs)
            elif kind == NUMBER:
                if coded:
                    left = carray(_pointer(coded), size, np.uint16)
                    for i in range(start, stop):
                        longs[i] = address + np.int64(left[rows[i]])
                else:
                    for i in range(start, stop):
                        longs[i] = address + rows[i]
            elif kind == DECIMAL:
                for i in range(start, stop):
                    longs[2 * i] = source[rows[i]]
                    longs[2 * i + 1] = source[rows[i]] >> 63
            else:
                days = carray(_pointer(address), size, np.int32)
                for i in range(start, stop):
                    ints[i] = days[rows[i]]
        start = stop


@njit(cache=True, nogil=True)
def gather(kinds, columns, sources, stride, rows, stops, places, out, nulls):
    """Write the columns of a record batch.

    kinds, columns: int64[c], the kind and the place in the schema. sources: int64[chunks * stride], PARTS numbers
    for each column of each chunk. rows: int64[k], ascending within a chunk; stops: int64[chunks], the ends of the rows
    of each chunk end. places: int64[c, 3], where the validity (-1: no NULL), the values and the text begin in `out`.
    All read. out: uint8[bytes] at an address that is a multiple of 8, written but for padding; nulls: int64[c],
    written. O(k * c), and the bytes of text.
    """
    total, begin = rows.shape[0], np.int64(out.ctypes.data)
    for i in range(columns.shape[0]):
        valid, values, text = places[i, 0], places[i, 1], places[i, 2]
        nulls[i] = 0
        if valid >= 0:
            bits = out[valid : valid + ((total + 7) >> 3)]
            nulls[i] = total - gather_bits(columns[i], 1, sources, stride, rows, stops, bits)
        if kinds[i] == BITS:
            gather_bits(columns[i], 0, sources, stride, rows, stops, out[values : values + ((total + 7) >> 3)])
        elif kinds[i] == TEXT:
            ends = carray(_pointer(begin + values), total + 1, np.int32)
            _gather_text(columns[i], sources, stride, rows, stops, ends, out[text:])
        else:
            _gather_fixed(kinds[i], columns[i], sources, stride, rows, stops, begin + values)


@njit(cache=True, nogil=True)
def lay_out(kinds, nullable, texts, rows, places, buffers):
    """Lay out the body of a record batch: as `gather` wants it, and as the batch's header says it.

    kinds: int64[c]; nullable: uint8[c]; texts: int64[c], bytes of text; rows: how many; read. places: int64[c, 3] and
    buffers: int64[b, 2], (offset, length) of each buffer in Arrow's order: validity, values, text; written.
    Returns the length of the body. O(c).
    """
    end, b = np.int64(0), 0
    for i in range(kinds.shape[0]):
        bits, kind = (rows + 7) >> 3, kinds[i]
        size = 8 * rows
        if kind in (NARROW, TEXT):
            size = 4 * (rows + np.int64(kind == TEXT))
        elif kind == BITS:
            size = bits
        elif kind == DECIMAL:
            size = 16 * rows
        places[i, 0] = end if nullable[i] else -1
        for field in range(3 if kind == TEXT else 2):
            length = bits * np.int64(nullable[i] != 0) if field == 0 else size if field == 1 else texts[i]
            if field:
                places[i, field] = end
            buffers[b, 0], buffers[b, 1] = end, length
            end += (length + 7) & ~7
            b += 1
        if kind != TEXT:
            places[i, 2] = end
    return end
