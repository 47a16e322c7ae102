"""Ingest: rows of the caller on their way into a stream, each exactly once.

    rows ──to Arrow──> Push        one batch, one call
                   ──> Producer    batches in a pipeline, numbered
                   ──> Stage       parts from several processes, visible as a whole

Question: how do rows get into a stream, and which rows did the service refuse?

Files, in reading order:

    push              the result of a push
    direct_pusher     single pushes, as a whole or batch after batch
    producer          the pipelined sender
    producer_options  its options
    lost_batches      its window, and what becomes of it if a takeover has lost batches
    pipeline          its numbered batches, with source positions
    messages          the messages in which small batches travel together
    table_producer    its upserts and deletions for tables
    deletions         rows that delete keys of a table
    stage             a batch in parts
    refused_rows      rows that the service refused for their times, by counts
    row_reasons       the reason for each such row
    late_rows         pushes that keep such rows in a second stream
    lost_rows         warnings of rows that a sender did not bring in
    row_filter        rows that fit a stream, and the reason for each other row

Invariant: a retry repeats its number, and the service takes each number once.
Never here: a conversion of values (`psoup_client.columns`).
Not for: the calls themselves (`psoup_client.calls.ingest`).
"""
