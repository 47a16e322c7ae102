"""Keys and labels in admission: their valid form, the query that has a key, and the label names of a tenant.

    key ──> runs that the writer has published, and runs of events not yet published ──> its query, if it exists
    query ID ──> the call that registered it: digest, label names     while one of its queries exists

The writer keeps all keys. Admission keeps only the keys of events that the writer has not published. A key is free as
soon as its query is removed. A label name is free as soon as no call with it has a query left.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sortedcontainers import SortedDict

from psoup.admission.queries.query_streams import Owners
from psoup.admission.spans import meeting
from psoup.clauses.index.bounds import distinct
from psoup.errors import InvalidInput, NotFound
from psoup.events.events import Registered, RegisteredMany
from psoup.events.tags import NO_TAG, Labels, Tag, TagColumns, coded, tag_of
from psoup.invariants import ensure
from psoup.phrases import counted
from psoup.published.lifetimes import Lifetimes
from psoup.published.records import QueryRecord
from psoup.published.selection import NothingPublished, Published, among, with_labels, with_prefix
from psoup.published.tags import Runs, find, key_names, key_run, runs_of, with_run
from psoup.values.columns import Array

MAX_KEY_BYTES = 256
"""The most bytes of a key."""
MAX_LABEL_BYTES = 64
"""The most bytes of the name of a label, and of its value."""
MAX_LABELS = 8
"""The most labels of one query, or of one block."""
MAX_LABEL_NAMES = 32
"""The most different names of labels that the registered queries of a tenant may have."""

_SHOWN = 60
"""The most characters of a text in a message."""
_LISTED = 8
"""The most columns that a message lists."""
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_integer, pa.types.is_null)
"""The types that a column of keys or labels may have. Its values are converted to texts."""


class TaggedCall(NamedTuple):
    """A call that registered queries with keys or labels. `queries`: their number. `sequence`: the call's event.

    `digest`: of the call's content. `names`: the names of its labels.
    """

    tenant: str
    queries: int
    sequence: int
    digest: bytes
    names: tuple[str, ...]


_QUERIES_OF: Callable[[TaggedCall], int] = attrgetter("queries")


class KnownTags:
    """The keys and labels of all tenants, as the writer has published them and as later events add to them."""

    def __init__(self) -> None:
        self._published: Callable[[], Published] = NothingPublished
        self._ahead: Runs = ()
        """The runs of keys of events that the writer had not published at the last `_catch_up`."""
        self._coming: list[Registered | RegisteredMany] = []
        """The events that the writer had not published at the last `_catch_up`, for their labels and keys as texts."""
        self._calls: SortedDict[int, TaggedCall] = SortedDict()
        """The calls by the ID of their first query."""
        self._names: dict[tuple[str, str], int] = {}
        """The number of calls that have a label name, by tenant and name."""

    def share(self, published: Callable[[], Published]) -> None:
        """Read the writer's keys and labels from `published` from now on."""
        self._published = published
        self._catch_up()

    def published(self) -> Published:
        """The writer's published state."""
        return self._published()

    # Reading -----------------------------------------------------------------------------------------------

    def check_names(self, tenant: str, names: Iterable[str]) -> None:
        """Raise InvalidInput if a tenant would have too many label names."""
        new = sorted(name for name in names if (tenant, name) not in self._names)
        names_used = sorted(name for owner, name in self._names if owner == tenant)
        if new and len(names_used) + len(new) > MAX_LABEL_NAMES:
            raise InvalidInput(
                f"label {new[0]!r} would be one name too many: queries have {MAX_LABEL_NAMES} names of labels at most,"
                f" and have {', '.join(names_used)}; use one of these, and put what differs into its value",
                reason="LABEL_NAMES",
                label=new[0],
                limit=MAX_LABEL_NAMES,
            )

    def check_selection(self, tenant: str, labels: Labels) -> None:
        """Raise NotFound for a label name that no query of the tenant has, while its queries have other names.

        For calls that remove queries: a misspelt name would remove nothing in silence.
        """
        names_used = [name for owner, name in self._names if owner == tenant]
        unknown = next((name for name, _ in labels if name not in names_used), None)
        if unknown is None or not names_used:
            return
        near = difflib.get_close_matches(unknown, names_used, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise NotFound(
            f"no query has a label {unknown!r}; {hint}the names of labels are {', '.join(sorted(names_used))}",
            reason="UNKNOWN_LABEL",
            label=unknown,
        )

    def query_of(self, tenant: str, key: str, owners: Owners) -> int:
        """The ID of the registered query with this key, or -1."""
        queries = self._standing(key_names(tenant, pa.array([key], pa.string())), owners)
        return int(queries[0])

    def meant(self, tenant: str, labels: Labels, prefix: str, owners: Owners) -> Array:
        """The queries of a tenant with all these labels, or with keys that begin with `prefix`: int64[k], ascending."""
        published = self._published()
        ids = [with_labels(published, tenant, labels) if labels else with_prefix(published, tenant, prefix)]
        ids += [among(event, labels, prefix) for event in self._coming if event.tenant == tenant]
        every = distinct(np.concatenate(ids))
        return every[owners.stand(every)]

    def queries_of(self, tenant: str, tags: TagColumns, owners: Owners) -> Array:
        """For each key of a block, the registered query with this key, or -1: int64[n]."""
        run = key_run(tenant, tags)
        # the run has sorted the keys, so that neighbouring look-ups read the same memory
        sought = self._standing(np.stack([run.high, run.low], axis=1), owners)
        queries: Array = np.empty_like(sought)
        queries[run.ids] = sought
        return queries

    def record(self, query_id: int) -> QueryRecord | None:
        """The record of a query, or None if the writer has not published it yet."""
        return self._published().queries.get(query_id)

    def lifetimes(self) -> Lifetimes:
        """The times at which queries expire, from the writer's published state."""
        return self._published().lifetimes

    def _standing(self, names: Array, owners: Owners) -> Array:
        """The registered query of each key name, or -1. Only the newest query of a name may still exist."""
        queries = find((*self._published().tags.keys, *self._ahead), names)
        taken = np.flatnonzero(queries >= 0)
        queries[taken[~owners.stand(queries[taken])]] = -1
        return queries

    def call_of(self, query_id: int) -> tuple[int, TaggedCall]:
        """The first query and the call that registered a given query, which must have a key. O(log n)."""
        first, call = self._calls.peekitem(self._calls.bisect_right(query_id) - 1)
        ensure(query_id < first + call.queries, self, "a key is of no call", query=query_id, first=first)
        return first, call

    # Adopting ----------------------------------------------------------------------------------------------

    def adopt(self, event: Registered | RegisteredMany, digest: bytes) -> None:
        """Add the queries of an event that have keys or labels."""
        if isinstance(event, Registered):
            if event.tag is NO_TAG:
                return
            first, count, names = event.query_id, 1, tuple(name for name, _ in event.tag.labels)
            keys = runs_of(event.tenant, Tag(event.tag.key))[0]
        elif event.tags is None:
            return
        else:
            first, count, names = event.first_id, len(event.tags), event.tags.names
            keys = key_run(event.tenant, event.tags)
        self._catch_up()
        self._coming.append(event)
        self._ahead = with_run(self._ahead, keys.at(first, event.sequence))
        self._calls[first] = TaggedCall(event.tenant, count, event.sequence, digest, names)
        for name in names:
            self._names[event.tenant, name] = self._names.get((event.tenant, name), 0) + 1

    def _catch_up(self) -> None:
        """Drop the keys and labels of events that the writer has published meanwhile."""
        published = self._published().tags.sequence
        self._ahead = tuple(run for run in self._ahead if run.sequence > published)
        self._coming = [event for event in self._coming if event.sequence > published]

    def unregistered(self, query_ids: Sequence[int], owners: Owners) -> None:
        """Record that queries (ascending) were removed from `owners`. Drops calls that have no query left.

        O(log n) for each of their calls.
        """
        for first, call, _ in meeting(query_ids, self._calls, _QUERIES_OF):
            if owners.stands_any(first, call.queries):
                continue
            del self._calls[first]
            for name in call.names:
                self._names[call.tenant, name] -= 1
                if not self._names[call.tenant, name]:
                    del self._names[call.tenant, name]

    def items(self) -> Iterator[tuple[int, TaggedCall]]:
        """Yield the state on which later decisions depend: the calls by their first query, ascending."""
        yield from self._calls.items()

    def check(self, owners: Owners) -> None:
        """Check that each call has an existing query, and that the label names equal the names in the calls."""
        names: dict[tuple[str, str], int] = {}
        for first, call in self._calls.items():
            stands = owners.stands_any(first, call.queries)
            ensure(stands, self, "all queries of a call are gone", first=first, count=call.queries)
            for name in call.names:
                names[call.tenant, name] = names.get((call.tenant, name), 0) + 1
        ensure(names == self._names, self, "names of labels are miscounted", counted=self._names, found=names)


def check_tag(tag: Tag) -> None:
    """Raise InvalidInput for a key or a label that is empty, too long, or has a NUL. An empty `key` means none."""
    _check_count(len(tag.labels))
    if tag.key:
        _check_text(tag.key, "key", MAX_KEY_BYTES)
    for name, value in tag.labels:
        _check_text(name, f"name of label {name[:_SHOWN]!r}", MAX_LABEL_BYTES)
        _check_text(value, f"label {name[:_SHOWN]!r}", MAX_LABEL_BYTES)


def tag_in(key: str, labels: Mapping[str, str]) -> Tag:
    """Make the tag of a request. Raises the errors of `check_tag`; refuses too many labels before it reads them."""
    _check_count(len(labels))
    tag = tag_of(key, labels)
    check_tag(tag)
    return tag


def tags_of(table: pa.Table, key: str, labels: Sequence[str], number: int = 1) -> TagColumns:
    """The tags in columns of a table from the wire. Raises InvalidInput, which names a missing or invalid column."""
    _check_count(len(labels))
    wanted = [*([key] if key else ()), *labels]
    lacking = [name for name in dict.fromkeys(wanted) if name not in table.column_names]
    if lacking:
        columns = ", ".join(map(repr, table.column_names[:_LISTED])) or "none"
        raise InvalidInput(
            f"the rows have no column {', '.join(repr(name[:_SHOWN]) for name in lacking[:_LISTED])} for keys or"
            f" labels; their columns are {columns}",
            reason="TAG_COLUMN",
            column=lacking[0][:_SHOWN],
        )
    if len(set(labels)) < len(labels):
        raise InvalidInput(f"a column of labels is named twice: {', '.join(labels)}", reason="LABELS")
    keys = _texts(table, key, number) if key else None
    if keys is not None and keys.null_count:
        row = pc.index(keys.is_null(), True).as_py()
        raise InvalidInput(f"query {number + row}: the key is NULL; give a text", reason="KEY", query=number + row)
    return TagColumns(len(table), keys, tuple((name, coded(_texts(table, name, number))) for name in sorted(labels)))


def _texts(table: pa.Table, name: str, number: int) -> pa.StringArray:
    """A column of texts, or of whole numbers as texts."""
    column = table.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if not any(fits(kind) for fits in _TEXTS):
        raise InvalidInput(
            f"column {name[:_SHOWN]!r} has {kind}; keys and labels are texts or whole numbers",
            reason="TAG_COLUMN",
            column=name[:_SHOWN],
        )
    try:
        column.validate(full=True)  # offsets and UTF-8 come from the wire
        whole = column.cast(pa.string()).combine_chunks()
    except pa.ArrowException as problem:
        said = str(problem).splitlines()[0][:200]
        raise InvalidInput(f"column {name[:_SHOWN]!r} is not valid: {said}", reason="TAG_COLUMN") from problem
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)


def check_prefix(prefix: str) -> None:
    """Raise InvalidInput for a prefix that no key can have. The prefix "" is allowed, and means none."""
    if prefix:
        _check_text(prefix, "prefix of keys", MAX_KEY_BYTES)


def check_tags(tags: TagColumns, tenant: str, number: int = 1) -> None:
    """Check the tags of a block as `check_tag` does, and its keys for duplicates. `number`: of its first query, for
    errors. O(bytes)."""
    _check_count(len(tags.labels))
    for name in tags.names:
        _check_text(name, f"name of label {name[:_SHOWN]!r}", MAX_LABEL_BYTES)
    for name, column in tags.labels:
        bad = _bad_places(column.dictionary, MAX_LABEL_BYTES)
        if len(bad):
            row = pc.index(column.indices, int(bad[0])).as_py()
            _check_text(column.dictionary[int(bad[0])].as_py(), f"label {name!r}", MAX_LABEL_BYTES, number + row)
    if tags.keys is None:
        return
    bad = _bad_places(tags.keys, MAX_KEY_BYTES)
    if len(bad):
        _check_text(tags.keys[int(bad[0])].as_py(), "key", MAX_KEY_BYTES, number + int(bad[0]))
    run = key_run(tenant, tags)
    twice = np.flatnonzero((run.high[1:] == run.high[:-1]) & (run.low[1:] == run.low[:-1]))
    if len(twice):
        first, second = sorted(int(run.ids[place]) for place in (twice[0], twice[0] + 1))
        raise InvalidInput(
            f"query {number + second}: key {tags.keys[second].as_py()[:_SHOWN]!r} is also that of query"
            f" {number + first}; a key is of one query",
            reason="KEY_TWICE",
            query=number + second,
        )


def _check_count(labels: int) -> None:
    if labels > MAX_LABELS:
        raise InvalidInput(
            f"{counted(labels, 'label')} are too many: a query has {MAX_LABELS} at most", reason="LABELS", found=labels
        )


def _bad_places(texts: pa.StringArray, limit: int) -> Array:
    """The places of invalid texts, ascending."""
    long = pc.greater(pc.binary_length(texts), limit)
    bad = pc.or_(pc.or_(long, pc.equal(texts, "")), pc.match_substring(texts, "\0"))
    return np.flatnonzero(bad.to_numpy(zero_copy_only=False))


def _check_text(text: str, kind: str, limit: int, number: int | None = None) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    if not text:
        why = "is empty; give a text, or leave it out"
    elif "\0" in text:
        why = "has a NUL character; take another text"
    elif size > limit:
        why = f"has {size:,} bytes; {limit} are the most"
    elif any("\ud800" <= letter <= "\udfff" for letter in text):
        why = "has half of a surrogate pair; take a text of whole characters"
    else:
        return
    where, facts = ("", {}) if number is None else (f"query {number}: ", {"query": number})
    raise InvalidInput(f"{where}the {kind} {why}", reason="KEY" if kind == "key" else "LABEL", **facts)
