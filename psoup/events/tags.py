"""Tags that clients give to queries: a key and labels, for one query or as columns for many queries.

    Tag("search-42", (("kind", "alert"), ("user", "u3")))           of one query; labels in the order of their names
    TagColumns   keys    ["search-42", "search-43", …]              a text each
                 labels  user: codes [0 1 0 …] of ["u3", "u7"]      a code each, NULL where the query has no such label

A key is unique among the standing queries of a tenant, but a label is not. Admission checks their form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.values.columns import Array

Labels = tuple[tuple[str, str], ...]
"""The labels of a query: pairs (name, value), ascending by name."""


class Tag(NamedTuple):
    """The key ("" for none) and the labels of a query."""

    key: str = ""
    labels: Labels = ()


NO_TAG = Tag()


def tag_of(key: str, labels: Mapping[str, str] | None) -> Tag:
    """Make a tag from a key and a mapping of labels. Returns NO_TAG itself if there are none."""
    return Tag(key, tuple(sorted(labels.items() if labels else ()))) if key or labels else NO_TAG


@dataclass(frozen=True, slots=True)
class TagColumns:
    """The tags of `count` queries. `keys`: strings without NULL, or None. `labels`: ascending by name."""

    count: int
    keys: pa.StringArray | None
    labels: tuple[tuple[str, pa.DictionaryArray], ...]
    made: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Values that admission computes and the writer uses again. See `psoup.published.tags`."""

    @staticmethod
    def of(tag: Tag) -> TagColumns | None:
        """The columns of one query. None if it has neither a key nor labels."""
        if tag is NO_TAG:
            return None
        labels = tuple((name, coded(pa.array([value], pa.string()))) for name, value in tag.labels)
        return TagColumns(1, pa.array([tag.key], pa.string()) if tag.key else None, labels)

    def __len__(self) -> int:
        return self.count

    @property
    def nbytes(self) -> int:
        """Bytes of the columns."""
        keys = 0 if self.keys is None else self.keys.nbytes
        return int(keys + sum(column.nbytes for _, column in self.labels))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the labels."""
        return tuple(name for name, _ in self.labels)

    def let_go(self) -> None:
        """Drop the values in `made`. The writer calls this after it has used them."""
        self.made.clear()

    def key(self, row: int) -> str:
        """The key of one of the queries, "" for none."""
        return "" if self.keys is None else str(self.keys[row])

    def tag(self, row: int) -> Tag:
        """The tag of one of the queries."""
        values = ((name, column[row].as_py()) for name, column in self.labels)
        return Tag(self.key(row), tuple((name, value) for name, value in values if value is not None))

    def having(self, labels: Labels) -> Array:
        """Flags, bool[count], of the queries that have all the given labels."""
        columns, having = dict(self.labels), np.ones(self.count, np.bool_)
        for name, value in labels:
            code = columns[name].dictionary.index(value).as_py() if name in columns else -1
            if code < 0:
                return np.zeros(self.count, np.bool_)
            indices = columns[name].indices
            having &= indices.fill_null(-1).to_numpy(zero_copy_only=False) == code
        return having

    def beginning(self, prefix: str) -> Array:
        """Flags, bool[count], of the queries whose key begins with `prefix`."""
        if self.keys is None:
            return np.zeros(self.count, np.bool_)
        return pc.starts_with(self.keys, prefix).to_numpy(zero_copy_only=False)

    def take(self, rows: Array) -> TagColumns:
        """The tags of the queries at positions `rows` (int64[k]), copied without unused texts."""
        places = pa.array(rows)
        keys = None if self.keys is None else self.keys.take(places)
        labels = tuple((name, coded(column.take(places).dictionary_decode())) for name, column in self.labels)
        return TagColumns(len(rows), keys, labels)


def coded(column: pa.Array) -> pa.DictionaryArray:
    """The column of a label, dictionary-encoded with int32 codes."""
    return column.dictionary_encode()


def codes_of(column: pa.DictionaryArray) -> tuple[Array, Array]:
    """The rows that have a label (int64[k]), and their codes (int32[k])."""
    indices = column.indices
    if not indices.null_count:
        return np.arange(len(indices)), indices.to_numpy()
    rows = np.flatnonzero(indices.is_valid().to_numpy(zero_copy_only=False))
    return rows, indices.drop_null().to_numpy()


def buffers_of(texts: pa.StringArray) -> tuple[Array, Array]:
    """The offsets (int64[n + 1]) and the bytes of texts."""
    _, offsets, data = texts.buffers()
    if not len(texts):
        return np.zeros(1, np.int64), np.zeros(1, np.uint8)
    places = np.frombuffer(offsets, np.int32, len(texts) + 1, 4 * texts.offset).astype(np.int64)
    return places, np.frombuffer(data or b"\0", np.uint8)


def content_of(tags: TagColumns) -> list[Any]:
    """The bytes for a digest of tags. Two blocks with equal tags have equal bytes. O(bytes)."""
    content: list[Any] = []
    for name, column in (("", tags.keys), *tags.labels):
        if column is None:
            continue
        texts = column if isinstance(column, pa.StringArray) else column.dictionary_decode()
        offsets, data = buffers_of(texts)
        rows = texts.is_valid().to_numpy(zero_copy_only=False)
        used = data[offsets[0] : offsets[-1]]
        content += [name.encode(), b"\0", np.packbits(rows), (offsets - offsets[0]).tobytes(), used.tobytes()]
    return content
