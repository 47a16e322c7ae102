"""What one process leaves for the next about expressions that must not be evaluated, and what a start makes of it.

    start 1   about to evaluate tuples 8192 to 16383 of stream 3: noted    killed, out of memory: nothing was raised
    start 2   the same place, for the second time: noted                   killed
    start 3   the same place: not evaluated; what is computed for the stream's clauses leaves the index, and that is
              noted for later starts, as is what was taken out by hand, until one does not meet it in its replay

Noted is what a replay evaluates, and in all of a process's life what maintenance covers; a process that is killed by
what arrives finds it again in its replay. That an operator kills a process twice at the same place costs speed only:
answers are the same without the index. Here is also what is told of clauses that have left it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from psoup.clauses.quarantine import EvaluationPlace, LeftIndex, Precautions
from psoup.errors import NotFound
from psoup_service.ids import Ids
from psoup_storage.contract import Store

EVALUATING, KEPT_OUT = "evaluating", "kept-out"
"""The names of the notes."""
_MOST_ENDS = 2
"""Processes that may end at a place before it is evaluated no more."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Mark:
    """A place, and how many processes have come to it, this one included."""

    place: EvaluationPlace
    times: int

    def to_text(self) -> str:
        """One line."""
        return json.dumps({**asdict(self.place), "times": self.times}, separators=(",", ":"))


class Guard:
    """Of one host. `watch` and `over` are called by one thread at a time: the replay's, then maintenance's.

    `quarantine`: queries that leave the index as they come, by their IDs on the wire; raises as `Ids.read_query`.
    """

    def __init__(self, store: Store, quarantine: Sequence[str] = ()) -> None:
        self._store = store
        self._ids = Ids(store.incarnation)
        self._by_hand = frozenset(map(self._ids.read_query, quarantine))
        self._found = read_mark(store.noted(EVALUATING))
        self._kept = _read_kept(store.noted(KEPT_OUT))
        self.left = 0
        """Clauses that have left the index since the start."""

    def precautions(self, *, watching: bool) -> Precautions:
        """For the engine; with `watching`, it says what it evaluates."""
        held = {stream_id: frozenset(digests) for stream_id, digests in self._kept.items()}
        return Precautions(self.watch if watching else None, held, self._by_hand)

    def refuse_unknown(self, stands: Callable[[int], bool]) -> None:
        """Raise NotFound if one of the queries to leave the index does not stand; after the replay."""
        for query_id in sorted(self._by_hand):
            if not stands(query_id):
                raise NotFound(
                    f"there is no query {self._ids.query(query_id)!r} in this data directory: it cannot be quarantined",
                    reason="UNKNOWN_QUERY",
                )

    def watch(self, place: EvaluationPlace) -> bool:
        """Note that something is about to be evaluated; False if that has ended two processes."""
        found = self._found
        times = found.times + 1 if found is not None and place.meets(found.place) else 1
        if times > _MOST_ENDS:
            self._found = None
            return False
        self._store.note(EVALUATING, Mark(place, times).to_text())
        return True

    def over(self) -> None:
        """What was evaluated has not ended the process."""
        self._store.note(EVALUATING, "")

    def tell(self, news: Sequence[LeftIndex], kept: Mapping[int, list[str]]) -> None:
        """Log what has left the index, and note what must stay out of it."""
        for left in news:
            self.left += left.clauses
            if not left.clauses:
                extra = {"stream": left.stream, "expression": left.expression}
                _log.info("no query reads what could not be evaluated: it may be tried again", extra=extra)
                continue
            _log.warning(
                "what a query computes cannot be evaluated: the queries that read it left the index, and are evaluated"
                " row by row when they are invoked",
                extra={
                    "stream": left.stream,
                    "expression": left.expression,
                    "why": left.why,
                    "clauses": left.clauses,
                    "queries": [self._ids.query(query_id) for query_id in left.query_ids],
                },
            )
        if kept != self._kept:
            self._kept = dict(kept)
            text = json.dumps({str(stream): digests for stream, digests in kept.items()}) if kept else ""
            self._store.note(KEPT_OUT, text)


def read_mark(text: str) -> Mark | None:
    """What an earlier process was about to evaluate; None if it came to its end otherwise."""
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
