"""Values: columns of one type, batches of tuples, and their forms in memory, in Arrow and as order keys.

    Arrow arrays ──from_arrow──> Column ──> Batch ──> Arrow arrays
                                   └──digests──> 15 bytes that identify its content

Question: what does a value look like, and in what form does it come and leave?

Files, in reading order:

    kinds         all kinds of value in one table: forms in memory, in Arrow, in files, and order keys
    limbs         integers of 128 bits, as sums need them
    columns       columns and batches, and their way out to Arrow
    from_arrow    columns from Arrow, checked
    digests       digests of batches, which tell a repeat from a conflict

Never here: a stream, a chunk, an expression.
Not for: types of SQL (`psoup.sql.types`), tuples of a stream (`psoup.data`).
"""
