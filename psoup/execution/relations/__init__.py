"""Relations: the results of subselects and set operations, and constants, as rows of the statement around them.

    SELECT … FROM (SELECT …) t     ──pieces──> table_rows ──> columns, ORDER BY, GROUP BY, joins
    SELECT … UNION SELECT …        ──pieces──> set_rows   ──> table_rows
    VALUES (1, 'a'), (2, 'b')      ──> constants          ──> table_rows

Files, in reading order:

    table_rows     the rows of a relation: read once piece by piece, or kept
    kept_chunks    kept rows, as chunks in memory
    row_numbers    numbers of rows: equal rows have equal numbers
    set_rows       UNION, INTERSECT and EXCEPT, piece by piece
    constants      the columns of VALUES
    scalar_row     the row of a scalar subselect
    relation_side  a relation as the side of a join

Invariant: code charges bytes to the read before it keeps them, and returns all of them when the rows are closed.
Not for: rows of groups (`aggregate.groups`), rows of joins (`join.join_rows`).
"""
