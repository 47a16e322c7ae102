"""Rows: the columns of a SELECT list, gathered from chunks straight into the bytes of Arrow record batches.

    matches ──> source_rows (references) ──> select_list (values) ──> record_batch (bytes)
                     └──> sort (keys, then tuple IDs in order)

Files, in reading order:

    source_rows     rows of one source, as references to tuples until their columns are gathered
    select_list     expressions of SELECT over rows
    record_batch    rows as Arrow IPC messages
    arrow_header    the places of fields in the header of an Arrow message
    declared_sizes  the rows and decoded bytes that an Arrow message declares
    sort            ORDER BY, DISTINCT and top-k over keys that come in parts
    sort_keys       order and equality of the columns of one answer
    answer_case     the case of an answer, for the ways of `psoup.execution.ways`
    source_messages, computed_rows    two of these ways: columns of one stream as messages; any plan as columns

Invariant: code charges bytes to the read before it allocates them.
Not for: joined rows (`join.join_rows`), rows of groups (`aggregate.groups`).
"""
