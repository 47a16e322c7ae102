"""Joins: the reader finds the rows of several sides that belong together, when it makes an answer.

    sides ──> small_join, parallel_join     from matches to the bytes of Arrow, in few kernel calls
          └─> join_rows ──> kept_pairs      pairs that maintenance keeps
                       ├──> small_pairs     pairs of small sides, in one call
                       ├──> key_join        a hash join over gathered keys
                       ├──> band_join       ranges of a sorted side
                       └──> routed_join     any other join (`psoup.joins`)

Files, in reading order (`psoup.execution.ways` lists the ways among them):

    sides, located_side           rows of a side by position across chunks; a side whose matches two calls find
    join_case, join_rows          the case of a join for its ways; its rows by position, and their values
    kept_pairs, small_pairs       pairs that maintenance keeps; pairs of small sides
    key_join, band_join           pairs by equalities; pairs by one band
    routed_join                   any join
    small_join, parallel_join     whole answers of small joins; whole answers of larger joins on two threads
    join_messages                 whole answers whose columns are gathered from the chunks
    direct_join, pair_form        facts about a plan: its keys and bands; the layout of its answer
    lookup_filter, bloom_filter   semi-joins that reduce a large side before the join
    join_batch                    joined columns as Arrow messages

Invariant: all ways give the same rows in the same order.
Not for: hash tables, orders and steps (`psoup.joins`).
"""
