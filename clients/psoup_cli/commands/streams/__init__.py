"""Commands about streams: `psoup stream`, `push`, `producer`, `heartbeat`, `dump` and `load`.

    files ──push──> stream ──dump──> Parquet files ──load──> another stream

Question: how do rows get into a stream and out of it again?

Files, in reading order:

    stream       create, alter, list, show and drop
    push         rows of files into a stream
    producer     the last batch of a producer
    heartbeat    a promise that nothing older will come
    dump         a stream as Parquet files, and back

Never here: a call that the SDK lacks.
Not for: formats of files (`psoup_cli.files`), the progress of an upload (`psoup_cli.row_upload`).
"""
