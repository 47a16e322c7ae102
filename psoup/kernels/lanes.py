"""The hits of a list side by side, sixteen elements at a time: a compiler does not find the instruction by itself.

    hit        1 0 0 1 1 0 …          one byte for each element
    clauses    7 8 9 3 4 5 …
    out        7 3 4 . . .            as keys; what lies behind them means nothing

A loop that writes each element and moves on where it hits takes a step for each. Here a processor that has the
instruction takes one for all sixteen; for any other the compiler writes the steps, and the order is the same.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 16
"""Elements at a time; so many may be written behind the last that hits."""


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


_BYTE, _WORD = ir.IntType(8), ir.IntType(32)


def _all(kind, value):
    return ir.Constant(ir.VectorType(kind, LANES), [value] * LANES)


def _spread(builder, value, kind):
    """A number in every lane."""
    value = builder.trunc(value, kind) if kind.width < value.type.width else value
    nothing = ir.Constant(ir.VectorType(kind, LANES), ir.Undefined)
    return builder.shuffle_vector(builder.insert_element(nothing, value, _WORD(0)), nothing, _all(_WORD, 0))


def _lanes(context, builder, signature, arguments, which, place):
    """A pointer to LANES elements of an array that is an argument, from a place on; None is the first."""
    array = context.make_array(signature.args[which])(context, builder, arguments[which])
    first = array.data if place is None else builder.gep(array.data, [place])
    element = ir.IntType(signature.args[which].dtype.bitwidth)
    return builder.bitcast(first, ir.VectorType(element, LANES).as_pointer())


def _load(context, builder, signature, arguments, which, place):
    bytes_each = signature.args[which].dtype.bitwidth // 8
    return builder.load(_lanes(context, builder, signature, arguments, which, place), align=bytes_each)
