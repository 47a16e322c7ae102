"""Events in a data directory; they survive the end of the process and power cuts.

    directory         the folder: private, and locked against a second service
    sqlite/           the database in the folder: opening, schema, checks, checkpoints
    log/              events as rows, and back; blocks of many queries; removal of rows that the log no longer needs
    chunks/           closed chunks as Parquet files
    tools/            backup, doctor, and setting damaged data aside
    store             the contract `Store`, made of these
    read_only_store   a store that only reads: `psoup doctor --replay` rehearses a start with it
    first_token       a token that an operator writes while no service runs

A module imports only modules that are above it in this list.
"""

from psoup_storage.durable.store import DurableStore

__all__ = ["DurableStore"]
