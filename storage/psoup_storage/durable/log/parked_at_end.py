"""Parked queries in a replay: their statements are not bound, and the values of a block without tags are not read.

    log    4711 queries 7 … 9                  first
           4712 altered 7 8 9: parked          so the event of 4711 comes with parked queries
           4713 altered 8: active              so 8 is bound

A replay must know how the queries of a row are kept at its end before it decodes the row. So the rows of the kind
`altered` are read twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from psoup.errors import PSoupError
from psoup.events.events import QueriesAltered
from psoup.plan.amounts import Keeping
from psoup.values.columns import Array
from psoup_storage.durable.log.blocks import read_gone
from psoup_storage.durable.log.keepings import decode_alteration, keeping_in
from psoup_storage.durable.log.log import FIELDS, Query
from psoup_storage.durable.log.rows import LogRow, checksum_of

_ALTERED = f"SELECT {', '.join(FIELDS)} FROM log WHERE kind = 'altered' ORDER BY sequence"
_CONTENT = "SELECT content FROM slices WHERE sequence = ? ORDER BY number"
_AS_REGISTERED, _PARKED, _BOUND = range(3)


class ParkedAtEnd:
    """The queries that are parked at the end of the log."""

    def __init__(self, changes: list[QueriesAltered]) -> None:
        """`changes`: all changes of how queries are kept, in order."""
        deciding = [event for event in changes if event.change.parks is not None and len(event.query_ids)]
        end = max((int(event.query_ids[-1]) + 1 for event in deciding), default=0)
        self._words: Array = np.zeros(end, np.uint8)
        """The last word about each query, by its ID."""
        for event in deciding:
            self._words[event.query_ids] = _PARKED if event.change.parks else _BOUND

    def of(self, first: int, count: int, keeping: Keeping) -> Array:
        """Flags, bool[count]: whether the queries from ID `first` on are parked, which were registered with a
        `keeping`."""
        words: Array = np.zeros(count, np.uint8)
        last_words = self._words[first : first + count]
        words[: len(last_words)] = last_words
        return (words == _PARKED) | ((words == _AS_REGISTERED) & keeping.parked)

    def among(self, query_ids: Array) -> Array:
        """The queries among some (int64[k], ascending) that the last change about them parks."""
        changed = query_ids[query_ids < len(self._words)]
        return changed[self._words[changed] == _PARKED]

    def all_of(self, row: LogRow, facts: Mapping[str, Any]) -> bool:
        """Whether all registered queries of a template's block are parked, so that the event can come without them.

        Rows of versions without parked queries lack the charge of a query, and are bound.
        """
        if "charge" not in facts or facts.get("pairs"):
            return False
        parked = self.of(facts["first"], facts["count"], keeping_in(facts))
        gone: Array = np.zeros(len(parked), np.bool_)
        if row.gone is not None:
            gone[read_gone(row.sequence, len(parked), row.gone)] = True
        return bool((parked | gone).all() and parked.any())

    def without_content(self, row: LogRow) -> bool:
        """Whether a replay does not need the content of a row."""
        if row.kind != "queries" or row.checksum != checksum_of(row):
            return False
        facts = json.loads(row.body)
        return "labels" not in facts and self.all_of(row, facts)


def parked_at_end(query: Query) -> ParkedAtEnd:
    """Read which queries are parked at the end of the log. O(rows of the kind `altered` + their queries).

    If such a row is damaged, no query counts as parked. The replay names the damage when it comes to the row.
    """
    changes = list[QueriesAltered]()
    try:
        for values in list(query(_ALTERED, ())):
            row = LogRow(*values)
            row = row._replace(tuples=b"".join(content for (content,) in query(_CONTENT, (row.sequence,))))
            changes.append(decode_alteration(row, json.loads(row.body)))
    except (PSoupError, ValueError, KeyError, TypeError):
        return ParkedAtEnd([])
    return ParkedAtEnd(changes)
