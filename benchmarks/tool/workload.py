"""The workload of the PSoup paper, section 5.2.1, made larger.

    tuple   a0 … a7: eight integers, uniform in [0, 255]
    query   SELECT * FROM s WHERE a3 >= 64 AND a3 <= 150 AND a6 >= 11 AND a6 <= 222 … BEGIN (NOW - 32768 ROWS)
            one interval predicate on each of 1 to 8 different attributes; the length of the interval is uniform,
            its lower constant is a multiple of 32 with probability 0.2, else any

Everything follows from the seed. The paper's queries have 1 to 4 predicates where it varies the window, and it
fixes their number where it varies that; here the number is always an argument.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Columns = npt.NDArray[np.int64]
"""int64[8, n]: one row for each attribute."""

ATTRIBUTES = 8
DOMAIN = 256
STREAM = "s"
CREATE = f"CREATE STREAM {STREAM} ({', '.join(f'a{i} BIGINT NOT NULL' for i in range(ATTRIBUTES))})"


@dataclass(frozen=True, slots=True)
class Interval:
    """a<attribute> BETWEEN low AND high, both inclusive."""

    attribute: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Query:
    """A conjunction of intervals over different attributes."""

    intervals: tuple[Interval, ...]

    def predicate(self) -> str:
        """The WHERE clause, in SQL that PSoup and its peers all read."""
        return " AND ".join(f"a{i.attribute} >= {i.low} AND a{i.attribute} <= {i.high}" for i in self.intervals)

    def statement(self, window_rows: int) -> str:
        """The standing query over the last `window_rows` tuples."""
        return f"SELECT * FROM {STREAM} WHERE {self.predicate()} BEGIN (NOW - {window_rows} ROWS)"

    def mask(self, columns: Columns) -> npt.NDArray[np.bool_]:
        """Whether each tuple matches, bool[n], by NumPy. Every answer is checked against it."""
        mask = np.ones(columns.shape[1], np.bool_)
        for interval in self.intervals:
            values = columns[interval.attribute]
            mask &= values >= interval.low
            mask &= values <= interval.high
        return mask


def make_queries(count: int, factors: int, seed: int = 1) -> list[Query]:
    """`count` queries of `factors` intervals each."""
    random = np.random.default_rng([seed, count, factors])
    return [
        Query(tuple(_interval(random, int(a)) for a in random.choice(ATTRIBUTES, factors, replace=False)))
        for _ in range(count)
    ]


def _interval(random: np.random.Generator, attribute: int) -> Interval:
    size = int(random.integers(0, DOMAIN))
    highest_low = DOMAIN - 1 - size
    if random.random() < 0.2:
        low = 32 * int(random.integers(0, highest_low // 32 + 1))
    else:
        low = int(random.integers(0, highest_low + 1))
    return Interval(attribute, low, low + size)


def make_columns(rows: int, seed: int = 2) -> Columns:
    """`rows` tuples."""
    return np.random.default_rng([seed, rows]).integers(0, DOMAIN, (ATTRIBUTES, rows), dtype=np.int64)


def to_table(columns: Columns) -> pa.Table:
    """The tuples as Arrow, columns a0 to a7; the values are not copied."""
    return pa.table({f"a{i}": pa.array(columns[i]) for i in range(ATTRIBUTES)})


def batches(columns: Columns, rows: int) -> list[pa.Table]:
    """The tuples as Arrow tables of `rows` each; what is left over at the end is dropped."""
    table = to_table(np.ascontiguousarray(columns))
    return [table.slice(start, rows) for start in range(0, table.num_rows - rows + 1, rows)]
