"""Columns in Arrow as messages of PostgreSQL's protocol: the loops over values of an answer.

    numbers, times ──texts──> bytes of each value ──messages──> one message for each row

Files, in reading order:

    memory         reads and writes at addresses
    texts          values in PostgreSQL's text format, and numbers in its binary format
    quotes         texts as COPY writes them
    messages       values of columns into rows
    binary_rows    rows of a COPY, taken apart

The service loads this room when it opens the port for clients of PostgreSQL, and not before.
Not for: the types of PostgreSQL (`psoup_service.pg.values`).
"""
