"""Reads and writes at addresses, which need not be multiples of the size.

An address is an int64. The caller keeps the memory alive, and stays within it.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _pointer(builder, address, bits):
    return builder.inttoptr(address, ir.IntType(bits).as_pointer())


@intrinsic
def read_byte(_, address):
    """The byte at an address, as int64."""

    def generate(context, builder, signature, arguments):
        return builder.zext(builder.load(_pointer(builder, arguments[0], 8)), ir.IntType(64))

    return types.int64(types.int64), generate


@intrinsic
def read_short(_, address):
    """The two bytes at an address, as int64."""

    def generate(context, builder, signature, arguments):
        return builder.sext(builder.load(_pointer(builder, arguments[0], 16), align=1), ir.IntType(64))

    return types.int64(types.int64), generate


@intrinsic
def read_int(_, address):
    """The four bytes at an address, as int64."""

    def generate(context, builder, signature, arguments):
        return builder.sext(builder.load(_pointer(builder, arguments[0], 32), align=1), ir.IntType(64))

    return types.int64(types.int64), generate


@intrinsic
def read_long(_, address):
    """The eight bytes at an address."""

    def generate(context, builder, signature, arguments):
        return builder.load(_pointer(builder, arguments[0], 64), align=1)

    return types.int64(types.int64), generate


@intrinsic
def write_byte(_, address, value):
    """Write a byte."""

    def generate(context, builder, signature, arguments):
        value = builder.trunc(arguments[1], ir.IntType(8))
        builder.store(value, _pointer(builder, arguments[0], 8))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


def _write_swapped(bits):
    def generate(context, builder, signature, arguments):
        kind = ir.IntType(bits)
        value = arguments[1] if bits == 64 else builder.trunc(arguments[1], kind)
        builder.store(builder.bswap(value), _pointer(builder, arguments[0], bits), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def write_short(_, address, value):
    """Write two bytes, the most significant one first."""
    return _write_swapped(16)


@intrinsic
def write_int(_, address, value):
    """Write four bytes, the most significant one first."""
    return _write_swapped(32)


@intrinsic
def write_long(_, address, value):
    """Write eight bytes, the most significant one first."""
    return _write_swapped(64)


@intrinsic
def copy_bytes(_, target, source, size):
    """Copy bytes between places that do not overlap."""

    def generate(context, builder, signature, arguments):
        target, source = (builder.inttoptr(address, cgutils.voidptr_t) for address in arguments[:2])
        cgutils.raw_memcpy(builder, target, source, arguments[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate
