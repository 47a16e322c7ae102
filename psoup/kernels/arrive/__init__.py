"""Arrival: new tuples against the arrays of a predicate index, and the matches in the form that results keep.

    values ──codes──> codes ──prefix_bitmaps──> bitmaps ─┐
                        ├──────────────index_probe───────┴─> bits of dense rows, pairs of (clause, offset)
                        └──────posting_lists──> candidates ─┘          │
                                                                   slot_runs ──> pairs grouped by slot

Files, in reading order:

    codes              a value as its place among the sorted constants of its attribute
    prefix_bitmaps     for each code, the tuples with a smaller one
    arrays             the arrays that these kernels take together
    index_probe        plan, then emit: the join of a piece of tuples with all clauses
    posting_lists      clauses reached from the values that they require
    work_counters      the work of a plan, counted for each clause
    slot_runs          pairs grouped by slot, without a comparison
    watch_hits         watched clauses that have a new match

Invariant: the matches of one slot keep the order of their tuples.
Not for: one clause over old tuples (`psoup.kernels.search`).
"""
