"""A relation as the side of a join: its rows by position, as the matches of a stream are.

The kept rows are chunks in memory, so all ways of joining streams in memory also join relations.
"""

from __future__ import annotations

from psoup.execution.join.sides import MatchedSide
from psoup.execution.relations.table_rows import TableRows


class RelationSide(MatchedSide):
    """The rows of a relation, by position. They are computed when the side is made, once."""

    def __init__(self, table: TableRows) -> None:
        """Raises ResourceExhausted if the relation has too many rows, or too large ones."""
        reading = table.reading
        self._table = table
        super().__init__(table.matches(), reading.texts, reading.budget, reading.joins.bytes, reading.run)

    def close(self) -> None:
        """Drop all rows, and return their bytes to the budget. Idempotent."""
        super().close()
        self._table.close()
