"""Instructions for some elements at once that a compiler does not find by itself.

    hit        1 0 0 1 1 0 …          one byte for each element
    clauses    7 8 9 3 4 5 …
    out        7 3 4 . . .            as keys; what lies behind them means nothing

`keep_hits`: a loop that writes each element and moves on where it hits takes a step for each. Here a processor that has
the instruction takes one for all sixteen; for any other the compiler writes the steps, and the order is the same.

`write_line` writes what lies in all of some intervals past the caches. An ordinary write reads the line first, and puts
another out of the cache for one that nobody reads soon. `all_written` ends some of these: before it, another thread may
not see them.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 16
"""Elements at a time; so many may be written behind the last that hits."""
LINE = 8
"""Words of a line of cache."""


@intrinsic
def keep_hits(_, hit, clauses, at, number, bits, out, place):
    """out[place:] = clauses[at + i] << bits | number, of the i below LANES with hit[i] != 0; returns how many.

    hit: uint8[>= LANES]; clauses: int32[>= at + LANES]; read. out: uint32 or uint64[>= place + LANES], written up to
    there, hit or not. at, number, bits, place: int64.
    """

    def generate(context, builder, signature, arguments):
        hits = builder.icmp_unsigned("!=", _load(context, builder, signature, arguments, 0, None), _all(_BYTE, 0))
        keys = _load(context, builder, signature, arguments, 1, arguments[2])
        kind = ir.FunctionType(keys.type, [keys.type, hits.type, keys.type])
        name = f"llvm.experimental.vector.compress.v{LANES}i32"
        compress = cgutils.get_or_insert_function(builder.module, kind, name)
        keys = builder.call(compress, [keys, hits, ir.Constant(keys.type, ir.Undefined)])
        wide = ir.IntType(out.dtype.bitwidth)
        keys = builder.zext(keys, ir.VectorType(wide, LANES)) if wide.width > _WORD.width else keys
        keys = builder.shl(keys, _spread(builder, arguments[4], wide))
        keys = builder.or_(keys, _spread(builder, arguments[3], wide))
        builder.store(keys, _lanes(context, builder, signature, arguments, 5, arguments[6]), align=wide.width // 8)
        return builder.zext(builder.ctpop(builder.bitcast(hits, ir.IntType(LANES))), ir.IntType(64))

    whole = types.int64
    return whole(hit, clauses, whole, whole, whole, out, whole), generate


@intrinsic
def one_word(_, bitmaps, edges, w):
    """The tuples of word w that lie in all intervals: the AND of bitmaps[high + w] & ~bitmaps[low + w].

    bitmaps: uint64[…]; edges: a tuple of (high, low); w, high, low: uint64.
    """

    def generate(context, builder, signature, arguments):
        return _anded(context, builder, signature, arguments, _LONG)

    return types.uint64(bitmaps, edges, types.uint64), generate


@intrinsic
def write_line(_, bitmaps, edges, w, rows, place):
    """rows[place + i] = one_word(bitmaps, edges, w + i), of the i below LINE, past the caches.

    rows: uint64[…]; rows[place] is the first word of a line of cache. place: uint64.
    """

    def generate(context, builder, signature, arguments):
        line = _anded(context, builder, signature, arguments, ir.VectorType(_LONG, LINE))
        to = builder.bitcast(_at(context, builder, signature, arguments, 3, arguments[4]), line.type.as_pointer())
        write = builder.store(line, to, align=8 * LINE)
        write.set_metadata("nontemporal", builder.module.add_metadata([_WORD(1)]))
        return context.get_dummy_value()

    return types.void(bitmaps, edges, types.uint64, rows, types.uint64), generate


@intrinsic
def all_written(_):
    """What was written past the caches is seen by whoever sees what is written after."""

    def generate(context, builder, signature, arguments):
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


def _anded(context, builder, signature, arguments, kind):
    """What lies in all intervals, for one word or some."""
    found = None
    for edges in cgutils.unpack_tuple(builder, arguments[1]):
        high, low = (
            builder.load(
                builder.bitcast(
                    _at(context, builder, signature, arguments, 0, builder.add(edge, arguments[2])), kind.as_pointer()
                ),
                align=8,
            )
            for edge in cgutils.unpack_tuple(builder, edges)
        )
        inside = builder.and_(high, builder.not_(low))
        found = inside if found is None else builder.and_(found, inside)
    return found


_BYTE, _WORD, _LONG = ir.IntType(8), ir.IntType(32), ir.IntType(64)


def _all(kind, value):
    return ir.Constant(ir.VectorType(kind, LANES), [value] * LANES)


def _spread(builder, value, kind):
    """A number in every lane."""
    value = builder.trunc(value, kind) if kind.width < value.type.width else value
    nothing = ir.Constant(ir.VectorType(kind, LANES), ir.Undefined)
    return builder.shuffle_vector(builder.insert_element(nothing, value, _WORD(0)), nothing, _all(_WORD, 0))


def _lanes(context, builder, signature, arguments, which, place):
    """A pointer to LANES elements of an array that is an argument, from a place on; None is the first."""
    first = _at(context, builder, signature, arguments, which, place)
    element = ir.IntType(signature.args[which].dtype.bitwidth)
    return builder.bitcast(first, ir.VectorType(element, LANES).as_pointer())


def _at(context, builder, signature, arguments, which, place):
    """A pointer to an element of an array that is an argument; None is the first."""
    data = context.make_array(signature.args[which])(context, builder, arguments[which]).data
    return data if place is None else builder.gep(data, [place])


def _load(context, builder, signature, arguments, which, place):
    bytes_each = signature.args[which].dtype.bitwidth // 8
    return builder.load(_lanes(context, builder, signature, arguments, which, place), align=bytes_each)
