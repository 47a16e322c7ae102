"""A column of a chunk as numbers of its different values, kept for those who group by it again.

    sym   IBM SUN IBM IBM NULL          codes  0 1 0 0 2          values  IBM SUN NULL

To tell texts apart costs ten times what it costs to count them. A column is numbered when it is asked for a second
time, and only if its values repeat: four rows for each of them on average. Like narrow codes, it can be given up.
"""

from __future__ import annotations

from dataclasses import dataclass

from psoup.columns import Array, Column

_REPEATED = 4

ASKED, USELESS = 0, -1
"""In the place of a column's codes: it was asked for once; it has too many different values."""


@dataclass(frozen=True, slots=True)
class Coded:
    """`codes`: uint16[n], for each row a place in `values`, a column of different values, NULL among them.

    `whole`: each of the values occurs.
    """

    codes: Array
    values: Column
    whole: bool = True

    error = None
    """No value of a column is an error, as one of an expression may be."""

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
    """Whether so many different values of so many rows are worth their codes."""
    return 0 < _REPEATED * values <= rows
