"""Aggregates of one query: rows are folded into states, and whole chunks come from folds that are kept.

    window   …|··mmm|mmmmm|mmmmm|mm…      inner chunks: one kept fold; the two ends: folded from rows

Files, in reading order:

    fold_rows        rows become groups, and arguments become states
    groups           rows of groups: Aggregate and HAVING
    window_folds     inner chunks from kept folds, ends from rows
    window_middle    the part between the first and the last step of a sliding window
    window_ends      the row of an aggregate from plain columns at both ends
    single_row       facts about a plan that folds to one row

Invariant: an answer from folds equals the answer from rows, bit for bit. A missing fold is not zero.
Not for: states and their arithmetic (`psoup.aggregates`).
"""
