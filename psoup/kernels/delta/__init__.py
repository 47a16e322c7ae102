"""Rows and values with the instants at which they end, and the changes of results that they cause.

    spans ──value_ends──> changes of DISTINCT
    spans of two sides ──key_presence, band_presence──> changes of semi-joins and anti-joins

Files, in reading order:

    value_ends       the latest end of each value
    key_presence     left rows, and the keys for which there is a right row
    band_presence    left rows, and right rows of their key whose number is within their bounds
    key_rows         the lists of the rows of each key

Invariant: an end is the last instant of a row. ABSENT is the end of a row that left.
Never here: buffers, the order of changes, the values of rows.
Not for: joins at one instant (`psoup.kernels.join`).
"""
