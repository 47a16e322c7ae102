"""Keys and labels of a million queries: what they cost when queries are registered, and finding queries by them.

tags.register    blocks of 8,192 with a key and a label each, in turns with the same blocks without
tags.queries     the 20 queries of one user of 50,000, beside NumPy that compares every label
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from benchmarks.arrival.registration import BLOCK, TEMPLATE
from benchmarks.tool.measure import Row, Sample, Target, seconds
from benchmarks.tool.run import Run
from psoup.local import LocalPSoup

EACH = 20
"""Queries of a user."""
ASKED = 200
_SYMBOLS = 10_000
CREATE = "CREATE STREAM trades (symbol TEXT, price BIGINT)"


def rows(run: Run) -> Iterator[Row]:
    """The rows of the table."""
    yield from run.part(lambda: _rows(run.of(1_000_000, 200_000, 400)), "tags.register", "tags.queries")


def _rows(queries: int) -> Iterator[Row]:
    table = table_of(queries)
    plain, tagged = _soup(), _soup()
    with_tags = {"key": "search_id", "labels": ["user_id"]}
    bare = table.drop(["search_id", "user_id"])
    _soup().register_many(TEMPLATE, bare.slice(0, BLOCK))  # kernels are loaded
    _soup().register_many(TEMPLATE, table.slice(0, BLOCK), **with_tags)  # type: ignore[arg-type]
    spent = [0.0, 0.0]
    for start in range(0, queries, BLOCK):
        request = f"request/{start}"  # as the SDK sends it
        turns: tuple[Callable[[], object], ...] = (
            lambda: plain.register_many(TEMPLATE, bare.slice(start, BLOCK), request),  # noqa: B023 called at once
            lambda: tagged.register_many(TEMPLATE, table.slice(start, BLOCK), request, **with_tags),  # type: ignore[arg-type] # noqa: B023
        )
        for place, turn in enumerate(turns):
            before = time.process_time()
            turn()
            spent[place] += time.process_time() - before
    bill = tagged.engine.bill()
    size = (bill["query_tags_bytes"] + bill["query_blocks_bytes"] - plain.engine.bill()["query_blocks_bytes"]) / queries
    texts = (table["search_id"].nbytes + table["user_id"].nbytes) / queries - 8  # without their offsets
    yield Row(
        "tags.register",
        Sample.of([queries / spent[1]]),
        "queries/s",
        "without keys and labels, processor time",
        Sample.of([queries / spent[0]]),
        Target(at_least=0.8),
        note=f"tags.register: {size - texts:.0f} bytes a query beyond the texts of its key and label, 64 wanted",
        details={"bytes_per_query": size, "text_bytes": texts, "queries": queries},
    )
    yield _found(tagged, table)


def _found(soup: LocalPSoup, table: pa.Table) -> Row:
    users = np.array(table["user_id"].to_pylist())
    ours, peer = [], []
    for number in range(ASKED):
        user = f"u{number % (len(users) // EACH)}"
        answers, expected = list[list[int]](), list[list[int]]()
        ours.append(1_000 * seconds(lambda: answers.append(soup.queries(labels={"user_id": user}))))  # noqa: B023
        peer.append(1_000 * seconds(lambda: expected.append((np.flatnonzero(users == user) + 1).tolist())))  # noqa: B023
        if answers != expected:
            raise AssertionError(f"{user} has other queries than NumPy finds")
    target = Target(value_at_most=5)
    return Row("tags.queries", Sample.of(ours), "ms", "NumPy, comparing all labels", Sample.of(peer), target)


def table_of(queries: int) -> pa.Table:
    """Values, keys and labels of some queries."""
    random = np.random.default_rng(1)
    numbers = np.arange(queries)
    return pa.table(
        {
            "symbol": [f"S{number % _SYMBOLS}" for number in range(queries)],
            "low": numbers // _SYMBOLS,
            "high": 500 + numbers % 499,
            "search_id": [f"search-{number}" for number in range(queries)],
            "user_id": [f"u{user}" for user in random.integers(0, max(1, queries // EACH), queries)],
        }
    )


def _soup() -> LocalPSoup:
    soup = LocalPSoup()
    soup.execute(CREATE)
    return soup
