"""Random upserts, patches and deletions of a table, with the list of its entries: the naive truth beside PSoup.

upserts.push(soup)     some keys get new versions, some are deleted
upserts.entries        one for each tuple ID: the key, the row (None for a deletion), and the entry before
upserts.rows           the open row of each key
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import pyarrow as pa

from psoup.local import LocalPSoup

STATEMENT = "CREATE TABLE ads (k BIGINT, price BIGINT, place TEXT, PRIMARY KEY (k)) HISTORY 1 DAY"
PREDICATES = ("price > 5", "price < 3", "place = 'x'", "price IS NULL", "TRUE", "k % 3 = 1 OR place IS NULL")
_SCHEMA = pa.schema(
    [("k", pa.int64()), ("price", pa.int64()), ("place", pa.string()), ("_deleted", pa.bool_())],
)


@dataclass(frozen=True, slots=True)
class Entry:
    """The entry of a key. `row`: price and place, None for a deletion. `before`: the ID of the entry before, or -1."""

    key: int
    row: tuple[int | None, str | None] | None
    before: int

    def satisfies(self, predicate: str) -> bool:
        """Whether the entry is a version that satisfies one of `PREDICATES`."""
        if self.row is None:
            return False
        (price, place), key = self.row, self.key
        return {
            "price > 5": price is not None and price > 5,
            "price < 3": price is not None and price < 3,
            "place = 'x'": place == "x",
            "price IS NULL": price is None,
            "TRUE": True,
            "k % 3 = 1 OR place IS NULL": key % 3 == 1 or place is None,
        }[predicate]


class Upserts:
    """A table `ads` of a few keys, whose rows come, change and go."""

    def __init__(self, draw: random.Random, keys: int = 24, table: str = "ads") -> None:
        self.draw, self.keys, self.table = draw, keys, table
        self.entries = list[Entry]()
        self._newest: dict[int, int] = {}

    @property
    def open_ids(self) -> list[int]:
        """The IDs of the versions that hold now, ascending."""
        return sorted(number for number in self._newest.values() if self.entries[number].row is not None)

    def push(self, soup: LocalPSoup, most_keys: int = 12) -> None:
        """Push a batch of distinct keys: whole rows, or patches that lack a column."""
        draw, rows = self.draw, list[dict[str, object]]()
        lacks = draw.choice(("", "", "", "price", "place"))
        for key in draw.sample(range(self.keys), draw.randrange(1, most_keys + 1)):
            price, place = draw.choice([None, *range(9)]), draw.choice([None, "x", "y"])
            deleted, newest = draw.random() < 0.25, self._newest.get(key, -1)
            rows.append({"k": key, "price": price, "place": place, "_deleted": deleted or draw.choice([None, False])})
            earlier = (self.entries[newest].row if newest >= 0 else None) or (None, None)
            row = earlier[0] if lacks == "price" else price, earlier[1] if lacks == "place" else place
            self.entries.append(Entry(key, None if deleted else row, newest))
            self._newest[key] = len(self.entries) - 1
        batch = pa.Table.from_pylist(rows, _SCHEMA)
        if lacks:
            batch = batch.drop_columns([lacks]).append_column("_patch", pa.array([True] * len(rows)))
        soup.push(self.table, batch)
