"""Instructions for some elements at once that a compiler does not find by itself.

    tests      2 0 5 1 3 9 …          lower bounds, and as many upper bounds
    hits       1 0 0 1 1 0 …          a word, one bit for each element
    clauses    7 8 9 3 4 5 …
    out        7 3 4 . . .            as keys; elements behind them mean nothing

`inside` and `keep_hits`: a loop that tests an element, writes it and moves on where it hits takes some steps for each.
A processor that has the instructions takes one step for sixteen elements or more. For any other processor the compiler
writes single steps. The order is the same. `fetch` asks for memory that is read soon.

`write_line` writes the tuples in all of some intervals past the caches. An ordinary write reads the line first,
which evicts another line from the cache. `all_written` ends some of these: before it, another
thread may not see them.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 32
"""Elements at a time; so many may be written behind the last that hits."""
LINE = 8
"""Words of a line of cache."""


@intrinsic
def inside(_, tests, low, high, code):
    """A word with bit i set where tests[low + i] <= code < tests[high + i], for i below LANES.

    tests: uint16 or int32[…], none below 0, read; low, high, code: int64.
    """

    def generate(context, builder, signature, arguments):
        lows, highs = (_load(context, builder, signature, arguments, 0, arguments[place]) for place in (1, 2))
        code = _spread(builder, arguments[3], lows.type.element)
        hits = builder.and_(builder.icmp_unsigned("<=", lows, code), builder.icmp_unsigned("<", code, highs))
        return builder.zext(builder.bitcast(hits, ir.IntType(LANES)), _LONG)

    whole = types.int64
    return types.uint64(tests, whole, whole, whole), generate


@intrinsic
def keep_hits(_, hits, clauses, at, number, bits, out, place):
    """out[place:] = clauses[at + i] << bits | number, of the i below LANES that are set in `hits`; returns how many.

    hits: uint64; clauses: int32[>= at + LANES]; read. out: uint32 or uint64[>= place + LANES], written up to there,
    hit or not. at, number, bits, place: int64.
    """

    def generate(context, builder, signature, arguments):
        keys = _load(context, builder, signature, arguments, 1, arguments[2])
        wide = ir.IntType(out.dtype.bitwidth)
        keys = builder.zext(keys, ir.VectorType(wide, LANES)) if wide.width > _WORD.width else keys
        keys = builder.shl(keys, _spread(builder, arguments[4], wide))
        keys = builder.or_(keys, _spread(builder, arguments[3], wide))
        kept, size = _LONG(0), 8 * LINE // (wide.width // 8)
        kind, chosen = ir.VectorType(wide, size), ir.VectorType(ir.IntType(1), size)
        name = f"llvm.experimental.vector.compress.v{size}i{wide.width}"
        signature_of = ir.FunctionType(kind, [kind, chosen, kind])
        compress = cgutils.get_or_insert_function(builder.module, signature_of, name)
        for part in range(0, LANES, size):
            own = builder.trunc(builder.lshr(arguments[0], _LONG(part)), ir.IntType(size))
            lanes = ir.Constant(ir.VectorType(_WORD, size), list(range(part, part + size)))
            some = builder.shuffle_vector(keys, ir.Constant(keys.type, ir.Undefined), lanes)
            some = builder.call(compress, [some, builder.bitcast(own, chosen), ir.Constant(kind, ir.Undefined)])
            to = _at(context, builder, signature, arguments, 5, builder.add(arguments[6], kept))
            builder.store(some, builder.bitcast(to, kind.as_pointer()), align=wide.width // 8)
            kept = builder.add(kept, builder.zext(builder.ctpop(own), _LONG))
        return kept

    whole = types.int64
    return whole(types.uint64, clauses, whole, whole, whole, out, whole), generate


@intrinsic
def fetch(_, array, first, last):
    """Ask for array[first] up to array[last], which is read soon, a line of cache at a time. first, last: int64."""

    def generate(context, builder, signature, arguments):
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, _WORD, _WORD, _WORD])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        step = _LONG(8 * LINE // (array.dtype.bitwidth // 8))
        with cgutils.for_range_slice(builder, arguments[1], arguments[2], step, _LONG) as (place, _):
            address = builder.bitcast(_at(context, builder, signature, arguments, 0, place), cgutils.voidptr_t)
            builder.call(ask, [address, _WORD(0), _WORD(3), _WORD(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate


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
    """Make words written past the caches visible before any word that is written later."""

    def generate(context, builder, signature, arguments):
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


def _anded(context, builder, signature, arguments, kind):
    """The tuples in all intervals, for one word or some."""
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


_WORD, _LONG = ir.IntType(32), ir.IntType(64)


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
