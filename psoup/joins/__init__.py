"""Joins: the tuples of several sides that satisfy all factors between them, computed on demand.

    sides ──key_columns──> int64 keys ──semi_join──> fewer rows ──sort_builds──> rows by key
                                                                                    │
    first source, in pieces ──> eddy: a step for each source, as the policy says ───┘
                                  └──> from_order ──> residual ──> pieces of tuples

Files, in reading order:

    join_pieces                the way in: a join evaluated, piece by piece
    side, key_columns          a side as rows of a selection; operands of factors as int64 keys
    semi_join, sort_builds     the removal of rows without a partner; the rows of a side in the order of their keys
    eddy, steps, policies      the loop over partial tuples, its steps, and their order
    hash_pairs, multiway       joins without routes: two sides; several sides by one equality each
    from_order, residual       tuples in the order of FROM; conditions that are neither keys nor bands
    budget, products           limits on candidates and bytes; the refusal of too many pairs without a condition
    pairs_store                kept pairs of two closed chunks

Joins know no clauses, windows or chunks: a side is the result of an ordinary standing selection. The package
`psoup.execution.join` chooses among the ways of a join.
"""
