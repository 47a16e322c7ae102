"""Calls about rows of tables: rows are upserted by key, and deleted."""

from __future__ import annotations

from psoup_client.arguments import checking_arguments
from psoup_client.calls.ingest import IngestCalls
from psoup_client.calls.streams import StreamCalls
from psoup_client.columns.casts import TimeOptions, TimeUnit
from psoup_client.ingest.deletions import check_table, deletions
from psoup_client.ingest.patches import as_patches, check_same_columns
from psoup_client.ingest.push import PushResult
from psoup_client.ingest.refused_rows import Refusing
from psoup_client.inputs import Keys, Rows
from psoup_client.schema import StreamInfo
from psoup_client.times import Instant


@checking_arguments
class TableCalls(IngestCalls, StreamCalls):
    """Calls that create a table and change its rows; all other calls take tables as they take streams."""

    def create_table(self, sql: str, *, if_not_exists: bool = False) -> StreamInfo:
        """Create a table from a CREATE TABLE statement. As `create_stream`, which takes the statement, too."""
        return self.create_stream(sql, if_not_exists=if_not_exists)

    def upsert(
        self,
        table: str,
        rows: Rows,
        *,
        patch: bool = False,
        refused: Refusing = "raise",
        time_unit: TimeUnit | None = None,
        timeout: float | None = None,
    ) -> PushResult:
        """Put rows into a table: each replaces the row with its key, or is new. Rows are given as to `push`.

        A row is whole: a column that it lacks is NULL afterwards. With `patch=True` such a column keeps its value; None
        sets NULL. All rows must have the same columns then, and all columns with NOT NULL. If rows of a batch have the
        same key and time, the last one stands, and `replaced` counts the rest. `push` does the same for a table. Raises
        FailedPrecondition, reason WRONG_KIND, for a stream.

        >>> from psoup_client import Client
        >>> with Client() as client:
        ...     _ = client.create_table("CREATE TABLE ads (id BIGINT PRIMARY KEY, price DOUBLE)")
        ...     _ = client.upsert("ads", [{"id": 1, "price": 90}, {"id": 2, "price": 40}])
        ...     _ = client.upsert("ads", [{"id": 1, "price": 80}], patch=True)
        ...     _ = client.delete("ads", [2])
        ...     client.ask("SELECT * FROM ads").rows()
        [(1, 80.0)]
        """
        info = self._table(table, "upsert")
        if patch:
            check_same_columns(rows)
            rows, time_unit = as_patches(info, self.convert(table, rows, TimeOptions(time_unit))), None
        return self.push(table, rows, refused=refused, time_unit=time_unit, timeout=timeout)

    def delete(
        self,
        table: str,
        keys: Keys,
        *,
        time: Instant | None = None,
        refused: Refusing = "raise",
        timeout: float | None = None,
    ) -> PushResult:
        """Delete the rows of a table that have one of the keys. A key may be without a row.

        `keys`: a list of values, or of tuples if the key has several columns. Rows with the columns of the key, too.
        Columns that are not in the key are ignored. `time`: the time of the deletions in a table with
        TIMESTAMP BY; without it the rows must have the column. The result counts the deletions in `accepted`. Raises
        FailedPrecondition, reason WRONG_KIND, for a stream, and InvalidData for a key that does not fit.
        """
        rows = deletions(self._table(table, "delete"), keys, time, TimeOptions(zone=self.timezone))
        return self.push(table, rows, refused=refused, timeout=timeout)

    def _table(self, name: str, call: str) -> StreamInfo:
        """The definition of a table. A name that meant a stream is asked for again."""
        info = self._schemas.get(name.lower())
        if info is None or not info.primary_key:
            info = self.describe(name, wait_for=0)
        check_table(info, call)
        return info
