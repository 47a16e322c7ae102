"""Notes for the next process on expressions that must not be evaluated, and their use at a start.

    start 1   about to evaluate tuples 8192 to 16383 of stream 3: noted    killed, out of memory: nothing was raised
    start 2   the same place, for the second time: noted                   killed
    start 3   the same place: not evaluated; the expressions of the stream's clauses leave the index, and that is noted
              for later starts, as are queries taken out by hand, until a start does not meet them in its replay

The guard notes places while a replay evaluates, and while maintenance covers old tuples. If arriving tuples kill a
process, the next one meets them in its replay. If an operator kills a process twice at one place, only speed is lost.
Answers are the same without the index. This module also logs clauses that have left the index.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from psoup.clauses.quarantine import EvaluationPlace, LeftIndex, Precautions
from psoup.errors import NotFound
from psoup_service.host.ids import Ids
from psoup_storage.contract import Store

EVALUATING = "evaluating"
"""The name of the note on the evaluation under way."""
KEPT_OUT = "kept-out"
"""The name of the note on expressions that are not evaluated."""
_MOST_ENDS = 2
"""A place is not evaluated any more after so many processes have ended there."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Mark:
    """A place, and the number of processes that have begun to evaluate it, this one included."""

    place: EvaluationPlace
    times: int

    def to_text(self) -> str:
        """The mark as one line of JSON."""
        return json.dumps({**asdict(self.place), "times": self.times}, separators=(",", ":"))


class Guard:
    """The precautions of one host. One thread at a time calls `watch` and `over`: first the replay, then maintenance.

    `quarantine`: the IDs on the wire of queries to keep out of the index; raises as `Ids.read_query`.
    """

    def __init__(self, store: Store, quarantine: Sequence[str] = ()) -> None:
        self._store = store
        self._ids = Ids(store.incarnation)
        self._by_hand = frozenset(map(self._ids.read_query, quarantine))
        self._mark = read_mark(store.noted(EVALUATING))
        self._kept = _read_kept(store.noted(KEPT_OUT))
        self.left = 0
        """Clauses that have left the index since the start."""

    def precautions(self, *, watching: bool) -> Precautions:
        """The precautions for the engine. With `watching`, the engine calls `watch` before each evaluation."""
        digests_by_stream = {stream_id: frozenset(digests) for stream_id, digests in self._kept.items()}
        return Precautions(self.watch if watching else None, digests_by_stream, self._by_hand)

    def refuse_unknown(self, stands: Callable[[int], bool]) -> None:
        """Raise NotFound if a query of `quarantine` does not exist. Called after the replay."""
        for query_id in sorted(self._by_hand):
            if not stands(query_id):
                raise NotFound(
                    f"there is no query {self._ids.query(query_id)!r} in this data directory: it cannot be quarantined",
                    reason="UNKNOWN_QUERY",
                )

    def watch(self, place: EvaluationPlace) -> bool:
        """Note the place of the next evaluation. Returns False if two processes have ended there."""
        mark = self._mark
        times = mark.times + 1 if mark is not None and place.meets(mark.place) else 1
        if times > _MOST_ENDS:
            self._mark = None
            return False
        self._store.note(EVALUATING, Mark(place, times).to_text())
        return True

    def over(self) -> None:
        """Remove the note: the evaluation has not ended the process."""
        self._store.note(EVALUATING, "")

    def tell(self, news: Sequence[LeftIndex], by_stream: Mapping[int, list[str]]) -> None:
        """Log the clauses that have left the index, and note the expressions that must stay out of it."""
        for left in news:
            self.left += left.clauses
            if not left.clauses:
                extra = {"stream": left.stream, "expression": left.expression}
                _log.info("no query reads the failed expression any more: it may be tried again", extra=extra)
                continue
            _log.warning(
                "an expression cannot be evaluated, or takes too long: the queries that read it left the index,"
                " and are evaluated row by row when they are invoked",
                extra={
                    "stream": left.stream,
                    "expression": left.expression,
                    "why": left.why,
                    "clauses": left.clauses,
                    "queries": [self._ids.query(query_id) for query_id in left.query_ids],
                },
            )
        if by_stream != self._kept:
            self._kept = dict(by_stream)
            text = json.dumps({str(stream): digests for stream, digests in by_stream.items()}) if by_stream else ""
            self._store.note(KEPT_OUT, text)


def read_mark(text: str) -> Mark | None:
    """The place that an earlier process was evaluating when it ended; None if it ended otherwise."""
    try:
        facts = json.loads(text)
        place = EvaluationPlace(int(facts["stream_id"]), str(facts["what"]), int(facts["first_id"]), int(facts["rows"]))
        return Mark(place, int(facts["times"]))
    except (ValueError, KeyError, TypeError):
        return None


def _read_kept(text: str) -> dict[int, list[str]]:
    try:
        return {int(stream): [str(digest) for digest in digests] for stream, digests in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError):
        return {}
