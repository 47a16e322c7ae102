"""Events in a data directory; they survive the end of the process and power cuts.

directory   the folder: private, and locked against a second service
sqlite/     the database in it: how it is opened, what it holds, what follows an error
log/        events as rows, and back; blocks of many queries; which rows the log no longer needs
chunks/     closed chunks as Parquet files
tools/      backup, doctor, and what else looks at a directory from outside
store       the contract on top of these
looking     a store that is only read, for the rehearsal of a start

Each imports those above it only.
"""

from psoup_storage.durable.store import DurableStore

__all__ = ["DurableStore"]
