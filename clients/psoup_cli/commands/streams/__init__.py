"""Commands about streams and tables: `stream`, `table`, `push`, `producer`, `cdc`, `heartbeat`, `dump` and `load`.

    files ──push──> stream ──dump──> Parquet files ──load──> another stream

Question: how do rows get into a stream and out of it again?

Files, in reading order:

    stream       create, alter, list, show and drop
    table        the same for tables
    push         rows of files into a stream
    producer     the last batch of a producer
    cdc          a table of PostgreSQL into a table
    heartbeat    a promise that nothing older will come
    dump         a stream as Parquet files, and back

Never here: a call that the SDK lacks.
Not for: formats of files (`psoup_cli.files`), the progress of an upload (`psoup_cli.row_upload`).
"""
