"""Dictionary encoding: a chunk's column as its distinct values and a code for each row, kept for later GROUP BYs.

    sym   IBM SUN IBM IBM NULL          codes  0 1 0 0 2          values  IBM SUN NULL

Comparing texts costs ten times as much as counting codes. A column is coded at its second use, and only if its values
repeat: four rows for each value on average. Like narrow codes, a coded column may be dropped at any time.
"""

from __future__ import annotations

from dataclasses import dataclass

from psoup.values.columns import Array, Column

_REPEATED = 4
"""The least average number of rows for each distinct value of a coded column."""

ASKED = 0
"""Stands in place of the codes of a column that was used once."""
USELESS = -1
"""Stands in place of the codes of a column with too many distinct values."""


@dataclass(frozen=True, slots=True)
class Coded:
    """A dictionary-encoded column. `codes`: uint16[n], the place of each row's value in `values`.

    `values`: the distinct values, of which NULL may be one. `whole`: whether every value occurs in some row.
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
    """Whether `rows` rows with `values` distinct values repeat them often enough for codes to pay."""
    return 0 < _REPEATED * values <= rows
