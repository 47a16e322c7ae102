"""INSERT and COPY FROM: the rows of a statement, checked, and kept until they are pushed.

    inserts ─> insert_rows ─> insert_values      the rows of VALUES, in pieces
    targets, not_null                            the stream or table, and what its columns take
    writes ─> row_buffer                         a push at once, or at COMMIT

Question: which rows does a statement add, and when?
"""
