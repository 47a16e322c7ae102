"""Search: the rows of kept chunks that match a clause, and kept matches as rows.

    one clause, old rows  ──row_masks, key_index──> rows that match
    results of chunks     ──result_rows──> rows of one clause
                          ──match_pairs──> pairs of many clauses

Files, in reading order:

    row_masks      masks of rows whose values lie in intervals; rows of a mask
    key_index      rows of one chunk by key: built once, then searched by intervals
    result_rows    matches of one clause in the results of many chunks, as rows
    match_pairs    matches of many clauses in one chunk, as pairs

Invariant: a row is an offset in its chunk, and each row of an answer comes once.
Never here: values that are read from a file; a chunk is in memory by then.
Not for: new tuples (`psoup.kernels.arrive`).
"""
