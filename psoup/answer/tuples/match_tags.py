"""Matches with the keys and labels of their queries, cut to the size of a reply.

    Matched ── tags of its queries ──> queries with the wanted labels ──> the first rows that fit ──> Tagged

A reply is cut only if the caller wants keys or labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.answer.tuples.match_rows import Matched
from psoup.published.snapshot import Snapshot
from psoup.published.tag_columns import KEY, tag_columns
from psoup.values.columns import Array

PAIR_BYTES = 16
"""Bytes of a pair of row and query."""
_TEXT_BYTES = 5
"""Bytes of a text in Arrow without its letters: an offset, and a validity bit that counts as a byte."""


@dataclass(frozen=True, slots=True)
class WantedTags:
    """The tags that a caller wants: the `keys` of the queries, and their labels of the given `names`.

    `labels`: only queries that have all of these labels.
    """

    labels: Mapping[str, str]
    keys: bool = False
    names: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Tagged:
    """Matches, with the key of each, and its labels by name. `keys`: None if no query of the service has a key."""

    matched: Matched
    keys: pa.StringArray | None
    labels: tuple[tuple[str, pa.StringArray], ...]

    def take(self, places: Array) -> tuple[pa.StringArray | None, tuple[tuple[str, pa.StringArray], ...]]:
        """The keys and labels of the matches at `places`, int64[k]."""
        rows = pa.array(places)
        keys = None if self.keys is None else self.keys.take(rows)
        return keys, tuple((name, texts.take(rows)) for name, texts in self.labels)


def tagged(snapshot: Snapshot, matched: Matched, wanted: WantedTags, most_bytes: int) -> Tagged:
    """The matches of queries with the wanted labels, and the keys and labels of these queries.

    The result has at most `most_bytes` bytes, or a single match.
    """
    matched = having(snapshot, matched, wanted.labels)
    keyed = wanted.keys and bool(snapshot.tags.keys)
    names = [*([KEY] if keyed else ()), *wanted.names]
    if not names:
        return Tagged(matched, None, ())
    columns = tag_columns(snapshot.queries, matched.queries, names)
    keys = columns[0] if keyed else None
    return _fitting(Tagged(matched, keys, tuple(zip(wanted.names, columns[keyed:], strict=True))), most_bytes)


def keys_of(snapshot: Snapshot, query_ids: Sequence[int]) -> list[str]:
    """The keys of some queries; "" for a query without a key."""
    if not snapshot.tags.keys:
        return [""] * len(query_ids)
    (keys,) = tag_columns(snapshot.queries, np.array(query_ids, np.int64), [KEY])
    return keys.fill_null("").to_pylist()


def having(snapshot: Snapshot, matched: Matched, labels: Mapping[str, str]) -> Matched:
    """Only the matches of queries that have all of some labels."""
    if not labels:
        return matched
    columns = tag_columns(snapshot.queries, matched.queries, list(labels))
    have = np.ones(len(matched.queries), np.bool_)
    for column, value in zip(columns, labels.values(), strict=True):
        have &= pc.fill_null(pc.equal(column, value), False).to_numpy(zero_copy_only=False)
    counts = np.concatenate([[0], np.cumsum(have)])
    return replace(matched, ends=counts[matched.ends], queries=matched.queries[have])


def _fitting(whole: Tagged, most_bytes: int) -> Tagged:
    """The first rows that fit. If the first row alone is too large, its queries with the lowest IDs."""
    matched, texts = whole.matched, [*([] if whole.keys is None else [whole.keys]), *(c for _, c in whole.labels)]
    sizes = np.full(len(matched.queries), PAIR_BYTES, np.int64)
    for column in texts:
        sizes += pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False) + _TEXT_BYTES
    fit = max(int(np.searchsorted(np.cumsum(sizes), most_bytes, "right")), 1)
    if fit >= len(matched.queries):
        return whole
    rows = int(np.searchsorted(matched.ends[: matched.done + 1], fit, "right")) - 1
    if rows > 0:
        end = int(matched.ends[rows])
        cut, places = Matched(matched.ends[: rows + 1], matched.queries[:end], rows), np.arange(end)
    else:
        end = int(matched.ends[1])
        order = np.argsort(matched.queries[:end], kind="stable")
        ascending = np.cumsum(sizes[:end][order])
        places = order[: max(int(np.searchsorted(ascending, most_bytes, "right")), 1)]
        cut = Matched(np.array([0, len(places)]), matched.queries[places], 0, int(matched.queries[places[-1]]))
    return Tagged(cut, *whole.take(places))
