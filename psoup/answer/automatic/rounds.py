"""The rounds of AUTO: each one observes all AUTO queries, estimates their costs, and chooses the amounts of some.

The choice is NONE, PARTIAL, PARTIAL with pairs, or COMPLETE.

    every ten seconds  ──look──> choices, which the host installs
    a dear query       ──dear──> NONE until the next start, instead of quarantine

Rounds and changes take at most one percent of a core. A round has a credit of seconds for changes. The host waits for a
hundred times as long as the last round took.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from psoup.answer.automatic.auto_clauses import AutoClauses, auto_clauses
from psoup.answer.automatic.clause_work import StreamWork
from psoup.answer.automatic.cost_model import (
    CHOICES,
    NEW_TUPLE_S,
    NOT_KEPT,
    PAIRS,
    PARTIAL,
    Observed,
    estimates,
    switch_work,
)
from psoup.answer.automatic.decisions import Streaks, chosen, next_streaks
from psoup.answer.automatic.kept_pairs import PairedRows, paired_rows, seen_pairs
from psoup.answer.automatic.rates import Rates, next_rates
from psoup.model import SECOND
from psoup.plan.amounts import AMOUNTS, amount_places, auto_codes, inactive_codes
from psoup.published.automatic import AmountChoice, AutoRows
from psoup.published.snapshot import Snapshot
from psoup.values.columns import Array

EVERY_S = 10
"""Seconds between two rounds, at least."""
_SHARE = 0.01
"""The share of a core that rounds and changes may take."""
_SAVED_S = 60
"""The seconds whose share of a core may be saved for a round with many changes."""
_FOLLOWED_S = 600
"""The seconds after a page for which a stream counts as followed, or a query as copied."""
_ROW_BYTES = 64
"""Approximate bytes of a row in a kept answer."""


class AutoRounds:
    """The rounds of one engine, one at a time. `timer`: the thread's processor time in seconds."""

    def __init__(self, timer: Callable[[], float] = float) -> None:
        self._timer = timer
        self._last: int | None = None
        self._sequence = 0
        self._streams = dict[int, StreamWork]()
        self._followed = dict[int, int]()
        self._catalog: tuple[object, object, AutoClauses, PairedRows] | None = None
        self._credit = self._installed = self._expected = 0.0
        self.took = 0.0
        """Seconds of processor time of the last round."""

    def due(self, now: int) -> bool:
        """Whether a round is due at the time `now`, microseconds."""
        return self._last is None or now < self._last or now - self._last >= EVERY_S * SECOND

    @property
    def wait_s(self) -> float:
        """Seconds to wait until the next round."""
        return max(EVERY_S, self.took / _SHARE)

    def look(self, snapshot: Snapshot, now: int) -> list[AmountChoice]:
        """Do a round at the time `now` (microseconds). Returns the choices to install. The first round only observes.

        O(queries + slots of their streams + entries of their indexes), and a step of Python for each query outside
        blocks, if queries have changed.
        """
        began = self._timer()
        automatic, last = snapshot.automatic, self._last
        self._last = now
        rows = automatic.take_in(now)
        if not len(rows.ids):
            return []
        clauses, paired = self._facts(snapshot, rows)
        seconds = max(now - last, 1) / SECOND if last is not None else 0.0
        self._look_at_streams(snapshot, clauses, seconds, now)
        choices = list[AmountChoice]()
        if seconds:
            self._earn(seconds, automatic.installed_s)
            observed = self._observed(snapshot, rows, clauses, paired, seconds)
            choices = self._decided(snapshot, rows, clauses, observed, now)
        else:
            rows["asked"][:] = 0
        self._sequence = snapshot.sequence
        self.took = self._timer() - began
        self._credit -= self.took
        return choices

    def _earn(self, seconds: float, installed: float) -> None:
        """Add the share of a core since the last round, without the time that the last changes took too long."""
        self._credit += _SHARE * seconds - max(installed - self._installed - self._expected, 0.0)
        self._credit = min(self._credit, _SHARE * max(_SAVED_S, seconds))
        self._installed, self._expected = installed, 0.0

    def _facts(self, snapshot: Snapshot, rows: AutoRows) -> tuple[AutoClauses, PairedRows]:
        """The facts about the AUTO queries that stay the same while no query comes, goes or changes."""
        catalog, queries, ids = self._catalog, snapshot.queries, rows.ids
        if catalog is None or catalog[0] is not queries or catalog[1] is not ids:
            catalog = self._catalog = queries, ids, auto_clauses(queries, ids), paired_rows(queries, ids)
        return catalog[2:]

    def _look_at_streams(self, snapshot: Snapshot, clauses: AutoClauses, seconds: float, now: int) -> None:
        """Read the counters of all streams that AUTO queries read."""
        streams = dict[int, StreamWork]()
        for stream_id in np.unique(clauses.streams).tolist():
            view, work = snapshot.by_id[stream_id], self._streams.get(stream_id)
            if work is None:
                streams[stream_id] = StreamWork(view)
                continue
            streams[stream_id] = work
            if seconds:
                work.look(view, seconds)
        self._streams = streams
        self._followed.update(dict.fromkeys(snapshot.automatic.take_followed(), now))
        self._followed = {i: time for i, time in self._followed.items() if i in snapshot.by_id}

    def _observed(
        self, snapshot: Snapshot, rows: AutoRows, clauses: AutoClauses, paired: PairedRows, seconds: float
    ) -> Observed:
        """Note the observations of a round in the columns of all queries. Returns them."""
        invocations = rows["asked"].astype(np.float64)
        rows["asked"][:] = 0
        last = Rates(rows["rate"].astype(np.float64), rows["before"].astype(np.float64))
        rows["rate"], rows["before"] = next_rates(last, invocations, seconds)
        count, owners = len(rows.ids), clauses.owners
        rates, work = np.zeros(len(owners)), np.full(len(owners), np.nan)
        in_memory, followed = np.zeros(len(owners)), np.zeros(len(owners), np.bool_)
        for stream_id, stream in self._streams.items():
            here = np.flatnonzero(clauses.streams == stream_id)
            view = snapshot.by_id[stream_id]
            rates[here], work[here] = stream.rate, stream.of(clauses.sqc_ids[here])
            in_memory[here] = view.next_id - view.hot_id
            followed[here] = self._is_followed(stream_id)
        arrivals = np.bincount(owners, rates, count)
        spent = np.bincount(owners, rates * work / clauses.members, count)
        is_known = np.isfinite(spent) & (arrivals > 0)
        rows["arrivals"] = arrivals
        rows["work"][is_known] = spent[is_known] / arrivals[is_known]
        keeps = np.where(snapshot.answers.most_of_one > 0, rows["form"], NOT_KEPT)
        both, squares = (np.bincount(owners, in_memory**power, count) for power in (1, 2))
        seen, meeting = seen_pairs(snapshot, rows, paired, both), 2 / snapshot.config.chunk_rows
        return Observed(
            np.where(seen.chosen, PAIRS, amount_places(clauses.codes)),
            rows["rate"].astype(np.float64),
            rows["window"].astype(np.float64),
            rows["matches"].astype(np.float64),
            arrivals,
            np.full(count, max(snapshot.sequence - self._sequence, 0) / seconds),
            np.nan_to_num(rows["work"], nan=NEW_TUPLE_S).astype(np.float64),
            keeps,
            both,
            (np.bincount(owners, followed, count) == 0) & ~self._are_copied(rows),
            rows["dear"].copy(),
            seen.pairs,
            seen.may_pair,
            seen.has_pairs,
            seen.part * meeting * (arrivals * both - np.bincount(owners, rates * in_memory, count)),
            np.where(seen.begun, 0, seen.part * meeting * (both**2 - squares) / 2),
        )

    def _are_copied(self, rows: AutoRows) -> Array:
        """Whether a copy or a watch of each query asked for changes of late. Under NONE it would learn of them late."""
        assert self._last is not None
        rows["copied_at"][rows["copied"]] = self._last
        rows["copied"][:] = False
        copied: Array = self._last - rows["copied_at"] < _FOLLOWED_S * SECOND
        return copied

    def _is_followed(self, stream_id: int) -> bool:
        time, now = self._followed.get(stream_id), self._last
        return time is not None and now is not None and now - time < _FOLLOWED_S * SECOND

    def _decided(
        self, snapshot: Snapshot, rows: AutoRows, clauses: AutoClauses, observed: Observed, now: int
    ) -> list[AmountChoice]:
        """The choices of a round."""
        costs = estimates(observed, snapshot.answers.most_of_one / _ROW_BYTES)
        rows["costs"] = costs.T
        streaks = next_streaks(Streaks(rows["wanted"], rows["streak"]), costs, observed.places)
        moves = clauses.registered & auto_codes(clauses.codes) & ~inactive_codes(clauses.codes)
        streaks = streaks._replace(rounds=np.where(moves, streaks.rounds, 0))
        rows["wanted"], rows["streak"] = streaks
        work = switch_work(observed, streaks.wanted)
        places = chosen(streaks, costs, observed.places, work, self._credit)
        self._expected = float(work[places].sum())
        self._credit -= self._expected
        rows["since"][places], rows["streak"][places] = now, 0
        targets = streaks.wanted[places]
        parts = [(choice, places[targets == choice]) for choice in range(len(CHOICES))]
        return [_choice(choice, rows.ids[at]) for choice, at in parts if len(at)]


def _choice(place: int, query_ids: Array) -> AmountChoice:
    """The choice at a place of the estimates, for some queries."""
    pairs = place == PAIRS
    return AmountChoice(AMOUNTS[PARTIAL if pairs else place], query_ids, pairs=pairs)
