"""A cursor with SCROLL: it keeps the rows that were read, so that a client may go back to them.

    position   0            1 … n        n + 1
               before the   on a row     after the
               first row                 last row

    on row 4:  FORWARD 2 ─> 5, 6    BACKWARD 2 ─> 3, 2    ABSOLUTE 9 ─> 9    RELATIVE 0 ─> 4    ABSOLUTE -1 ─> the last

Rows are read from the SELECT when a client first asks for them. The account of the connection is charged their bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pyarrow as pa

from psoup_service.pg.account import Account
from psoup_service.pg.cursors.cursor import Cursor, Take


class ScrollCursor(Cursor):
    """An open cursor whose rows may be read in any order. `position`: see the picture above."""

    scrolls: ClassVar[bool] = True

    def __init__(self, name: str, text: str, account: Account, created: str, *, with_hold: bool) -> None:
        """See `Cursor`."""
        super().__init__(name, text, account, created, with_hold=with_hold)
        self._batches = list[pa.RecordBatch]()
        self._ends = [0]
        """The number of rows up to the end of each batch, after a 0."""
        self._complete = False
        self._charged = 0

    @property
    def on_row(self) -> bool:
        """Whether the position is a row."""
        return 0 < self.position <= self._ends[-1]

    async def read(self, limit: int | None, take: Take) -> int:
        """See `Cursor.read`."""
        return await self.forward(limit, take)

    async def forward(self, count: int | None, take: Take) -> int:
        """Hand the next `count` rows to `take`, or all if it is None. 0 means the present row. Returns their number.

        Raises as `Cursor.read` does, and ResourceExhausted if the connection keeps too many bytes.
        """
        if count == 0:
            return await self.absolute(self.position, take)
        begin = self.position + 1
        async with self.reading():
            await self._load(None if count is None else self.position + count)
            last = self._ends[-1] if count is None else min(self.position + count, self._ends[-1])
            for rows in self._slices(begin, last):
                await self.hand(rows, take)
            ended = count is None or self.position + count > last
            self.position = self._ends[-1] + 1 if ended else last
        return max(0, last - begin + 1)

    async def backward(self, count: int | None, take: Take) -> int:
        """Hand the `count` rows before the present one to `take`, the nearest first; else as `forward`."""
        if count == 0:
            return await self.absolute(self.position, take)
        last = self.position - 1
        first = 1 if count is None else max(1, self.position - count)
        async with self.reading():
            for rows in reversed(list(self._slices(first, last))):
                await self.hand(rows.take(pa.array(np.arange(rows.num_rows - 1, -1, -1))), take)
            self.position = 0 if count is None else max(0, self.position - count)
        return max(0, last - first + 1)

    async def absolute(self, number: int, take: Take) -> int:
        """Hand the row with a number from 1 to `take`; a negative number counts from the end. Returns 1 or 0.

        A number beyond the rows moves the cursor before the first row or after the last one. Raises as `forward`.
        """
        async with self.reading():
            await self._load(None if number < 0 else number)
            rows = self._ends[-1]
            place = max(0, rows + 1 + number) if number < 0 else min(number, rows + 1)
            for row in self._slices(place, place):
                await self.hand(row, take)
            self.position = place
        return int(0 < place <= rows)

    def stop(self) -> None:
        """See `Cursor.stop`. Forgets the rows that were read, too."""
        super().stop()
        self._batches, self._ends, self._complete = [], [0], True
        charged, self._charged = self._charged, 0
        self._account.give_back(charged)

    async def _load(self, rows: int | None) -> None:
        """Read from the SELECT until `rows` rows are kept, or all if it is None."""
        while not self._complete and (rows is None or self._ends[-1] < rows):
            batch = await self._next()
            if batch is None:
                self._complete = True
                return
            size = int(batch.nbytes)
            self._account.add(size)
            self._charged += size
            self._batches.append(batch)
            self._ends.append(self._ends[-1] + batch.num_rows)
            self._feed.go_on()

    def _slices(self, first: int, last: int) -> Iterator[pa.RecordBatch]:
        """The kept rows from the number `first` to `last`, in pieces and in order. Other numbers have no rows."""
        at, last = max(first, 1), min(last, self._ends[-1])
        while at <= last:
            number = bisect_right(self._ends, at - 1) - 1
            begin = self._ends[number]
            rows = self._batches[number].slice(at - 1 - begin, last - at + 1)
            yield rows
            at += rows.num_rows
