"""Over: window functions, computed by one sort of the rows for each PARTITION BY and ORDER BY.

    rows below ──gathered_rows──> IDs, values of keys and arguments
    values ──partitions──> rows in order, with the bounds of partitions, of peers and of frames
    frames ──functions──> a column for each function, in the order of the rows below ──over_rows──> SELECT, QUALIFY

Files, in reading order:

    over_rows        rows with the columns of OVER
    gathered_rows    the IDs of all rows, and the values that window functions read
    partitions       the order of the rows, and the bounds of partitions, peers and frames
    functions        THE LIST: the evaluator of each window function
    positions        functions that show the value of another row: lag, first_value, min
    frame_sums       counts and sums over frames, as exact as in GROUP BY

Invariant: code charges bytes to the read before it allocates them.
Not for: groups (`aggregate`), order of the answer (`rows.sort`).
"""
