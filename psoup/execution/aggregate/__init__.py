"""Aggregates of one query. Rows are folded into states, and a kept fold stands for the rows of whole chunks.

    window   …|··mmm|mmmmm|mmmmm|mm…      inner chunks: one kept fold; the two ends: folded from rows

A fold is the aggregate states of one clause over some chunks, kept for later invocations (`psoup.aggregates.folds`).

Files, in reading order (a star: a way, see `psoup.execution.ways`):

    single_row       facts about a plan that folds to one row; * the answer of such a plan
    window_case      a window that a way reads for an aggregate, and the ends that each way gives
    all_matches      * all matches of the window, for plans without folds
    window_rows      * all matches of the window, for aggregates
    window_folds     * inner chunks from kept folds, the two ends from rows
    window_middle    * a long middle part of a sliding window from a kept fold, the two ends from rows
    row_parts        keys and arguments of an Aggregate, in parts of rows
    fold_rows        * keys become group numbers, and arguments become states
    window_ends      * the row of an aggregate from plain columns at both ends
    pane_facts       facts about a HOP: whether the states of panes can be combined
    combined_panes   * states of panes become states of buckets
    repeated_rows    * each row of a HOP in all of its buckets
    groups           the rows of Aggregate, HOP and HAVING
    check_folds      the check that kept folds equal recomputed folds of their chunks

Invariant: an answer from folds equals the answer from rows, bit for bit. If a fold is missing, the reader folds the
chunks, and never takes zero.
Not for: states and their arithmetic (`psoup.aggregates`).
"""
