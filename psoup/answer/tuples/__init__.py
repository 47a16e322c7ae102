"""Tuples against queries: the queries that a tuple matched, and the tuples that a query matches.

    tuple ──> queries_of_tuple ──> queries          why ──> each condition, with its verdict
    window ──> match_bits ──> a bit for each tuple and query
    rows that are not pushed ──> match_rows ──> queries

Files, in reading order:

    queries_of_tuple    percolation: the queries that one tuple or many tuples matched
    match_bits          the Results Structure of a window, a bit for each tuple
    match_rows          queries that rows would match, if they came now
    pushed_ids          tuple IDs that the rows of a push got
    why                 the reasons for or against a single match
    match_tags          keys and labels of the queries that matched

Never here: windows of queries. A match says that WHERE is satisfied, not that the tuple is in an answer now.
"""
