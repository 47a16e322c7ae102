"""Aggregates of one query: rows are folded into states, and whole chunks come from folds that are kept.

    window   …|··mmm|mmmmm|mmmmm|mm…      inner chunks: one kept fold; the two ends: folded from rows

Files, in reading order (a star: a way, see `psoup.execution.ways`):

    single_row       facts about a plan that folds to one row; * its row, shown as it is
    window_case      a window to be read for an aggregate, and the ends that each way gives
    all_matches      * plans that are not aggregates
    window_rows      * all of the window, tuple by tuple
    window_folds     * inner chunks from kept folds, ends from rows
    window_middle    * the part between the first and the last step of a sliding window
    row_parts        rows to be folded, part by part
    fold_rows        * rows become groups, and arguments become states
    window_ends      * the row of an aggregate from plain columns at both ends
    groups           rows of groups: Aggregate and HAVING
    check_folds      the check that kept folds equal the folds of their chunks

Invariant: an answer from folds equals the answer from rows, bit for bit. A missing fold is not zero.
Not for: states and their arithmetic (`psoup.aggregates`).
"""
