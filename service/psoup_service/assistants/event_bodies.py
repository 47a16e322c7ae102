"""Bodies of deliveries to the webhooks of subscriptions. Each has one event, with the first rows that came.

The service adds this class to its deliverer when it serves assistants.
"""

from __future__ import annotations

import hashlib

import orjson
import pyarrow as pa

from psoup.answer.copies.changed_rows import ChangedRows
from psoup_service.assistants.answer_changes import MOST_ROWS, ROW_BYTES, AnswerChanged, occurrence
from psoup_service.assistants.cursors import Cursor
from psoup_service.assistants.facts import completeness_facts
from psoup_service.assistants.rows import fitting_rows
from psoup_service.webhooks.content import BodyFacts, read_rows


class EventBody:
    """See `psoup_service.webhooks.content.EventBody`."""

    def __init__(self, change: ChangedRows) -> None:
        self._whole = change.whole
        self._digest = hashlib.blake2b(digest_size=16)
        self._first = list[pa.RecordBatch]()
        self._taken = 0
        self.came = read_rows(change.came, self._digest if change.holding is None else None, self._take)
        self._rows = fitting_rows(pa.Table.from_batches(self._first), MOST_ROWS * ROW_BYTES) if self._first else []
        self.left = change.left.count
        if self.left is None:
            self.left = sum(batch.num_rows for batch in change.left.read)

    def _take(self, batch: pa.RecordBatch) -> bool:
        """Keep the first rows."""
        self._first.append(batch.slice(0, MOST_ROWS - self._taken))
        self._taken += self._first[-1].num_rows
        return self._taken < MOST_ROWS

    def digest(self) -> bytes:
        """A digest of all rows, for an answer that is sent whole each time."""
        return self._digest.digest()

    def text(self, facts: BodyFacts) -> bytes:
        """The event as JSON."""
        changed = AnswerChanged(
            key=facts.key,
            sequence=facts.completeness.sequence,
            came_count=self.came,
            left_count=None if self._whole else self.left,
            came=self._rows,
            more_rows=self.came - len(self._rows),
            completeness=completeness_facts(facts.completeness),
        )
        if self._whole:
            changed.reset = True
        event = occurrence(facts.message_id, facts.now, changed)
        return orjson.dumps({**event, "cursor": Cursor(facts.now, facts.token).text()})

    @staticmethod
    def gap(token: bytes, now: int) -> bytes:
        """A message that changes were missed. `token`: the position after them."""
        return orjson.dumps({"type": "gap", "cursor": Cursor(now, token).text()})
