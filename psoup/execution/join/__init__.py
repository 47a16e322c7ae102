"""Joins: the rows of several sides that belong together, found when an answer is read.

    sides ──> small_join, parallel_join     from matches to the bytes of Arrow, in few kernel calls
          └─> join_rows ──> kept_pairs      pairs that maintenance keeps
                       ├──> small_pairs     pairs of small sides, in one call
                       ├──> key_join        a hash join over gathered keys
                       ├──> band_join       ranges of a sorted side
                       └──> routed_join     any other join (`psoup.joins`)

Files, in reading order (`psoup.execution.ways` lists those that are ways):

    sides, located_side           a side by position, whatever chunks it lies in; a side found in two calls
    join_case, join_rows          a join to be evaluated; its rows by position, and their values
    kept_pairs, small_pairs       pairs that are kept; pairs of small sides
    key_join, band_join           pairs by equalities; pairs by one band
    routed_join                   any join
    small_join, parallel_join     whole answers of small joins, of larger ones on two threads
    join_messages                 whole answers whose columns are gathered from the chunks
    direct_join, pair_form        facts about a plan: its keys and bands; the layout of its answer
    lookup_filter, bloom_filter   cuts of a large side before the join
    join_batch                    joined columns as Arrow messages

Invariant: all ways give the same rows in the same order.
Not for: hash tables, orders and steps (`psoup.joins`).
"""
