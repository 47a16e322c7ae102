"""Events in a directory of their own, safe from the end of the process and of the power.

directory   the folder: private, and locked against a second service
database    SQLite in it: how it is opened, what it holds, what follows an error
codec       events as rows, and back; blocks: those of many queries
log         the rows, and the slices of large ones
chunks      closed chunks as Parquet files
forgetting  which rows the log no longer needs; departures: those of queries and streams that are gone
store       the contract on top of these
"""

from psoup_storage.durable.store import DurableStore

__all__ = ["DurableStore"]
