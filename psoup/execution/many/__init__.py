"""Many queries at once: queries of one plan are answered in one pass over the chunks.

    call ──> query_sets: by plan and stream ──> many_matches ──> window_packs | many_groups | many_joins
                                                             └──> many_shapes: DISTINCT, ORDER BY, LIMIT

Files, in reading order:

    query_sets      the queries of a call as columns, in sets of one plan each
    many_folds      states of many queries, a group for each clause
    window_packs    inner chunks from stored packs, ends from rows
    packs_store     packs beside chunks on disk
    many_groups     GROUP BY of many queries, with one sort
    many_shapes     DISTINCT, ORDER BY and LIMIT of many queries
    many_joins      joins of one plan, with one pass for pairs

Invariant: each answer equals the answer of its query alone.
"""
