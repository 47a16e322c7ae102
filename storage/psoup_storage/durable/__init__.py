"""Events in a directory of their own, safe from the end of the process and of the power.

directory   the folder: private, and locked against a second service
database    SQLite in it: how it is opened, what it holds, what follows an error
codec       events as rows, and back
chunks      closed chunks as Parquet files
forgetting  which rows the log no longer needs
store       the contract on top of these
"""

from psoup_storage.durable.store import DurableStore

__all__ = ["DurableStore"]
