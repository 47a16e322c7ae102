"""Rows: columns of the SELECT list, gathered from chunks straight into the bytes of Arrow record batches.

    matches ──> source_rows (references) ──> select_list (values) ──> record_batch (bytes)
                     └──> sort (keys, then tuple IDs in order)

Files, in reading order:

    source_rows     rows of one source as references; columns come last
    select_list     expressions of SELECT over rows
    record_batch    rows as Arrow IPC messages
    arrow_header    numbers in the header of an Arrow message
    sort            ORDER BY, DISTINCT and top-k over keys that come in parts
    sort_keys       order and equality of the columns of one answer
    answer_case     an answer to be shown, for the ways of `psoup.execution.ways`
    source_messages, computed_rows    two of these ways: columns of one stream as messages; any plan as columns

Invariant: bytes are charged to the read before they are made.
Not for: joined rows (`join.join_rows`), rows of groups (`aggregate.groups`).
"""
