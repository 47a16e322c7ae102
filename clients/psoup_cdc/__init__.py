"""Change data of PostgreSQL: a table of PSoup follows a table of PostgreSQL.

    PostgreSQL ── first rows, in one snapshot ──────────> a stage            one commit
               ── slot: transactions, by pgoutput ──────> numbered batches   position = end LSN

Question: which rows must be pushed so that the table equals the table of PostgreSQL, each change once?

Files, in reading order:

    replication  the first copy, and then each transaction as a batch
    start        the checks of both tables, the slot and the position
    first_copy   the first rows, in one snapshot
    changes      the stream of a slot
    pgoutput     the messages of the stream
    relations    the definition of the source, as it changes
    transaction  the changes of a transaction, as rows
    row_columns  the columns of many messages at once
    target       the table of PSoup, and its present versions
    values       values in text form, and the types that take them
    source       the database: definition, publication, slot
    lsn          places in the log of PostgreSQL

Invariant: the recorded position is the end of the last transaction whose rows are in.
Never here: a decision about versions of rows (the service decides).
Not for: other databases.
"""

from psoup_cdc.lsn import text_of
from psoup_cdc.replication import Figures, TableFeed
from psoup_cdc.source import PostgresSource, SourceTable
from psoup_cdc.start import Start, producer_name, slot_name, statement_for
from psoup_cdc.target import TargetTable

__all__ = [
    "TableFeed",
    "Figures",
    "PostgresSource",
    "SourceTable",
    "Start",
    "TargetTable",
    "producer_name",
    "slot_name",
    "statement_for",
    "text_of",
]
