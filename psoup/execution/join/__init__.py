"""Joins: the rows of several sides that belong together, found when an answer is read.

    sides ──> small_join       both sides small: one kernel from matches to bytes
          ──> parallel_join    larger sides by an equality, in halves on two threads
          ──> kept_pairs       pairs that maintenance keeps
          ──> routed_join ──> direct_join    two sources by equalities or bands
                          └──> psoup.joins   any other join, by routes

Files, in reading order:

    sides, located_side           a side by position, whatever chunks it lies in; a side found in two calls
    join_rows, join_batch         rows of a join; its columns as Arrow messages
    routed_join, direct_join      the choice of a way; plans that the direct way serves
    small_join, pair_form         the way of small sides, and its facts about the plan
    parallel_join, kept_pairs     the ways of larger sides and of kept pairs
    lookup_filter, bloom_filter   cuts of a large side before the join

Invariant: all ways give the same rows in the same order.
Not for: hash tables, orders and steps (`psoup.joins`).
"""
