"""Many queries at once: one pass over the chunks answers all queries of one plan.

    call ──> query_sets: by plan and stream ──> many_matches ──> window_packs | many_groups | many_joins
                                                             └──> many_shapes: DISTINCT, ORDER BY, LIMIT

Files, in reading order:

    query_sets      the queries of a call as columns, in sets of one plan each
    many_folds      aggregate states of many queries: each clause is a group
    window_packs    inner chunks of a window from stored packs, ends from rows
    packs_store     packs on disk
    many_groups     GROUP BY of many queries, with one sort
    many_shapes     DISTINCT, ORDER BY and LIMIT of many queries
    many_joins      joins of one plan, with one pass for pairs

A pack has the aggregate states of many clauses over a span of chunks (`psoup.aggregates.packs`).

Invariant: each answer equals the answer of its query alone.
"""
