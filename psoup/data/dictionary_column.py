"""Coded columns: a chunk's column as codes of its different values, kept for later GROUP BY.

    sym   IBM SUN IBM IBM NULL          codes  0 1 0 0 2          values  IBM SUN NULL

Comparing texts costs ten times as much as counting codes. A column is coded at its second use, and only if its values
repeat: four rows for each value on average. Like narrow codes, it may be dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

from psoup.values.columns import Array, Column

_REPEATED = 4
"""Least average number of rows for each value."""

ASKED = 0
"""In place of a column's codes: it was used once."""
USELESS = -1
"""In place of a column's codes: it has too many different values."""


@dataclass(frozen=True, slots=True)
class Coded:
    """`codes`: uint16[n], for each row a place in `values`, a column of different values, NULL among them.

    `whole`: whether every value occurs.
    """

    codes: Array
    values: Column
    whole: bool = True

    error = None
    """A stored column has no errors, unlike the column of an expression."""

    def __len__(self) -> int:
        return len(self.codes)

    def slice(self, start: int, stop: int) -> Coded:
        """Rows start to stop, sharing memory."""
        return Coded(self.codes[start:stop], self.values, self.whole and stop - start == len(self.codes))

    def take(self, rows: Array) -> Coded:
        """The rows at positions `rows`, copied."""
        return Coded(self.codes.take(rows), self.values, False)

    @property
    def nbytes(self) -> int:
        """Bytes of the codes, and of the values."""
        return int(self.codes.nbytes) + self.values.nbytes


def is_worth_keeping(values: int, rows: int) -> bool:
    """Whether codes pay for a column with this many different values."""
    return 0 < _REPEATED * values <= rows
