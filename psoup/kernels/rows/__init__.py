"""Rows: bitmaps, offsets, columns and orders, which all other rooms build on.

    bit_blocks <── tuples ──> bitmaps <──> offsets ──batch_body──> bytes of a record batch
                     └──> radix_sort ──> rows in order

Files, in reading order:

    bitmaps                   bitmaps, offsets, and the ways between them
    bit_blocks                many rows of bits in blocks: a piece of tuples is one stretch of memory
    batch_body                rows of many chunks as the body of an Arrow record batch
    radix_sort                row numbers in order of keys, by digits
    increasing_subsequence    the rows of two answers that keep their order
    arithmetic, double_math   arithmetic of columns in one pass; functions of libm
    parquet_deltas            pages of Parquet files that hold differences

Invariant: bit i of a bitmap is bit (i & 63) of word (i >> 6).
Never here: a clause, a slot, a group.
Not for: rows that two sides make together (`psoup.kernels.join`).
"""
