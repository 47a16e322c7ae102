"""Values between Arrow and PostgreSQL's clients, in text and in binary format.

    RecordBatch ──rows──────> DataRow messages           types    OIDs, sizes and modifiers
                ──copy_out──> messages of a COPY         zones    the session's TimeZone
    messages of a COPY ──copy_in──> RecordBatch          texts, binary    one value after the other
    arguments of a statement ──arguments──> parameters of a call

The package has the types of PSoup, and the types in PostgreSQL's catalogue. Convert long batches on a thread.
"""

from psoup_service.pg.values.rows import data_rows
from psoup_service.pg.values.types import column_of, size_of

__all__ = ["column_of", "data_rows", "size_of"]
