"""Matches with keys and labels: pages of any size are the whole, and what fits no page is cut within a row."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pyarrow as pa
import pytest

from psoup.answer.tuples.match_rows import Matched
from psoup.answer.tuples.match_tags import WantedTags, tagged
from psoup.local import LocalPSoup
from psoup_testing.suite.sweeps import swept

QUERIES = 40


@pytest.fixture(scope="module")
def soup() -> LocalPSoup:
    """Keys of many lengths; every third query has none. Some are gone."""
    soup = LocalPSoup()
    soup.execute("CREATE STREAM s (x BIGINT)")
    for number in range(QUERIES):
        soup.register("SELECT x FROM s", key="k" * number if number % 3 else "", labels={"user": f"u{number % 4}"})
    rows = {
        "x": [*range(QUERIES)],
        "id": [f"row {n}" for n in range(QUERIES)],
        "user": [f"u{n % 4}" for n in range(QUERIES)],
    }
    soup.register_many("SELECT x FROM s WHERE x > $x", pa.table(rows), key="id", labels=["user"])
    soup.unregister(QUERIES + 3)
    return soup


def whole(source: np.random.Generator) -> Matched:
    sizes = source.integers(0, 60, 12) * source.integers(0, 2, 12)
    queries = [source.permutation(2 * QUERIES)[:size] for size in sizes]
    return Matched(np.concatenate([[0], np.cumsum(sizes)]), np.concatenate([*queries, np.zeros(0, np.int64)]), 12)


def rest(matched: Matched, done: int, after: int) -> Matched:
    """The rows from `done` on; of the first, queries above `after`."""
    rows = [[query for query in matched.of(row) if row > done or query > after] for row in range(done, matched.done)]
    return Matched(np.cumsum([0, *map(len, rows)]), np.array([*chain.from_iterable(rows)], np.int64), len(rows))


@pytest.mark.parametrize("most", swept([1, 40, 200, 1_000, 3_000, 1 << 20], fast=(1, 3, 5)))
@pytest.mark.parametrize("labels", [{}, {"user": "u1"}, {"user": "nobody"}])
def test_pages_are_the_whole(soup: LocalPSoup, most: int, labels: dict[str, str]) -> None:
    snapshot, matched = soup.engine.snapshot(), whole(np.random.default_rng(most))
    wanted = WantedTags(labels, keys=True, names=["user"])
    done, after, found = 0, -1, list[tuple[int, int, str | None, str | None]]()
    while done < matched.done:
        page = tagged(snapshot, rest(matched, done, after), wanted, most)
        assert page.keys is not None
        sizes = np.diff(page.matched.ends)
        assert len(page.keys) == len(page.matched.queries) == sizes.sum()
        assert len(page.keys) <= 1 or 16 * len(page.keys) + page.keys.nbytes <= most + 64
        rows = np.repeat(np.arange(done, done + len(sizes)), sizes).tolist()
        ((_, users),) = page.labels
        found += zip(rows, page.matched.queries.tolist(), page.keys.to_pylist(), users.to_pylist(), strict=True)
        assert page.matched.done > 0 or page.matched.more is not None
        done, after = done + page.matched.done, -1 if page.matched.more is None else page.matched.more
    queries = [(row, query) for row in range(matched.done) for query in matched.of(row)]
    keys = soup.keys([query for _, query in queries])
    users = {query: user for user in ("u0", "u1", "u2", "u3") for query in soup.queries(labels={"user": user})}
    expected = [
        (row, query, key or None, users.get(query))
        for (row, query), key in zip(queries, keys, strict=True)
        if not labels or users.get(query) == labels["user"]
    ]
    assert sorted(found, key=lambda pair: pair[:2]) == expected


def test_without_keys_a_match_is_what_it_was() -> None:
    soup = LocalPSoup()
    soup.execute("CREATE STREAM s (x BIGINT)")
    soup.register("SELECT x FROM s", labels={"user": "u"})
    matched = Matched(np.array([0, 1]), np.array([0]), 1)
    assert tagged(soup.engine.snapshot(), matched, WantedTags({}, keys=True), 16).keys is None
    assert soup.keys([0, 7]) == ["", ""]
