"""The cost model of AUTO: seconds of a processor that a query takes in a second under each choice.

    NONE       nothing as tuples come                           an invocation tests each tuple of the window
    PARTIAL    the clause's share of the join with new tuples   it reads the matches of the window, and gathers rows
    COMPLETE   the same                                         it adds what is new; or the answer is evaluated anew
    PAIRS      PARTIAL, and the pairs of each full chunk        it reads the kept pairs of a join

Times are of one core; `benchmarks/answers/automatic.py` compares the choices with measured times. Choices need factors
of two, no more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from psoup.plan.amounts import AMOUNTS, Amount
from psoup.values.columns import Array

PARTIAL, NONE, COMPLETE = (AMOUNTS.index(amount) for amount in (Amount.PARTIAL, Amount.NONE, Amount.COMPLETE))
"""The places of the amounts in estimates."""
PAIRS = len(AMOUNTS)
"""The place of PARTIAL with kept pairs, for a join of two streams."""
CHOICES = (*(amount.name for amount in AMOUNTS), "PARTIAL with pairs")
"""The names of all choices, by their places."""

UNKNOWN, ROWS, MESSAGES, NOT_KEPT = range(4)
"""Forms of an answer. ROWS: its rows are brought up to date. MESSAGES: they are sent again until something comes.
NOT_KEPT: COMPLETE keeps nothing. UNKNOWN: the query was not invoked yet."""

_ASK_S = 150e-6
"""An invocation without its rows: finding the query, its window and chunks, and making a message."""
_ASK_KEPT_S = 60e-6
"""An invocation that sends kept messages, without their rows."""
_TEST_S = 4.5e-9
"""The test of a tuple that no index covers."""
_CHUNK_S = 20e-6 / 65_536
"""A tuple of a window whose matches are known: a chunk takes tens of microseconds."""
_ROW_S = 15e-9
"""A row of an answer that is gathered."""
_JOINED_ROW_S = 35e-9
"""A match of a source of a join, which is paired with its partners."""
_PAIRED_ROW_S = 5e-9
"""A match of a source of a join whose pairs are kept: matches of open chunks are still paired."""
_PAIR_S = 110e-9
"""A kept pair of the windows."""
_PAIRING_S = 10e-9
"""A tuple of a full chunk that meets another full chunk, whose pairs are made."""
_KEPT_ROW_S = 4e-9
"""A row in a kept message."""
_CHANGE_S = 150e-6
"""The look for new rows of a kept answer, if something has come."""
_CHANGED_ROW_S = 200e-9
"""A row that comes or leaves between two invocations of a kept answer."""
_MATCH_S = 20e-9
"""A match of a new tuple, in addition to the join: it is packed, and folded."""
NEW_TUPLE_S = 20e-9
"""A new tuple that meets a clause whose share of the join is not known yet."""
_COVER_S = 2e-9
"""A tuple in memory that meets a clause which enters the index."""
_MOVE_S = 20e-6
"""A query that changes its clause, or its kept answer."""


NEVER_S = 1e9
"""The cost of an amount that a query may not have."""


class Observed(NamedTuple):
    """The observations of some AUTO queries: arrays of n. See `psoup.published.automatic.AutoRows`.

    `places`: of their present amounts in `AMOUNTS`. `events`: of the engine, in a second. `in_memory`: tuples of their
    streams in memory. `may_idle`: whether NONE is allowed, as no follower needs their matches.

    Of joins: `pairs`, between all tuples of their windows, NaN if unknown. `may_pair`: whether AUTO may choose to keep
    them. `has_pairs`: whether they are kept anyway. `pairing`: the tuples of chunks that meet in a second as pairs of
    new chunks are made. `to_pair`: the tuples that meet as the pairs of all chunks are made.
    """

    places: Array
    rate: Array
    window: Array
    matches: Array
    arrivals: Array
    events: Array
    work: Array
    form: Array
    in_memory: Array
    may_idle: Array
    dear: Array
    pairs: Array
    may_pair: Array
    has_pairs: Array
    pairing: Array
    to_pair: Array


def estimates(seen: Observed, most_rows: float = NEVER_S) -> Array:
    """Seconds in a second for each choice, by its place: float64[4, n]; NEVER_S for one that is not allowed.

    `most_rows`: the most rows of a kept answer. O(n).
    """
    none_s, partial_s, complete_s = _invocations(seen, most_rows)
    paired_s = _paired_s(seen)
    arriving = seen.arrivals * (seen.work + _MATCH_S * _share(seen))
    costs: Array = np.empty((len(CHOICES), len(seen.rate)))
    costs[NONE] = seen.rate * none_s
    costs[PARTIAL] = arriving + seen.rate * partial_s
    costs[COMPLETE] = np.where(complete_s < NEVER_S, arriving + seen.rate * complete_s, NEVER_S)
    costs[PAIRS] = arriving + _PAIRING_S * seen.pairing + seen.rate * paired_s
    costs[PAIRS, ~seen.may_pair | (paired_s >= NEVER_S)] = NEVER_S
    costs[NONE, ~seen.may_idle] = NEVER_S
    for choice in (PARTIAL, COMPLETE, PAIRS):
        costs[choice, seen.dear] = NEVER_S
    return costs


def _invocations(seen: Observed, most_rows: float) -> tuple[Array, Array, Array]:
    """Seconds of one invocation under NONE, PARTIAL and COMPLETE; NEVER_S if COMPLETE keeps nothing."""
    is_joined = (seen.form == MESSAGES) | np.isfinite(seen.pairs)
    row_s = np.where(is_joined, _JOINED_ROW_S, _ROW_S) * seen.matches
    none_s, partial_s = (_ASK_S + tuple_s * seen.window + row_s for tuple_s in (_TEST_S, _CHUNK_S))
    partial_s = np.where(seen.has_pairs, np.minimum(partial_s, _paired_s(seen)), partial_s)
    rate = np.maximum(seen.rate, 1e-12)
    between = seen.arrivals / rate  # tuples that come between two invocations
    comes = np.minimum(np.minimum(between, seen.events / rate), 1)  # the probability that any comes
    changed = 2 * between * _share(seen)
    sent_s = _ASK_KEPT_S + _KEPT_ROW_S * seen.matches
    rows_s = sent_s + comes * _CHANGE_S + _CHUNK_S * np.minimum(between, seen.window) + _CHANGED_ROW_S * changed
    rows_s = np.where(changed > np.maximum(seen.matches, 1), NEVER_S, rows_s)  # it would be given up
    complete_s = np.where(seen.form == ROWS, rows_s, sent_s + comes * partial_s)
    complete_s = np.where((seen.form == UNKNOWN) | (seen.form == NOT_KEPT), NEVER_S, complete_s)
    return none_s, partial_s, np.where(seen.matches > most_rows, NEVER_S, complete_s)


def _paired_s(seen: Observed) -> Array:
    """Seconds of one invocation with kept pairs; NEVER_S if the pairs are unknown, or more than the matches."""
    paired_s: Array = _ASK_S + _CHUNK_S * seen.window + _PAIRED_ROW_S * seen.matches + _PAIR_S * seen.pairs
    return np.where(seen.pairs <= seen.matches, paired_s, NEVER_S)


def _share(seen: Observed) -> Array:
    """The share of the tuples of a window that match, 0 to 1."""
    share: Array = np.minimum(seen.matches / np.maximum(seen.window, 1), 1)
    return share


def switch_work(seen: Observed, wanted: Array) -> Array:
    """Seconds of a processor for a change to the choices at the places `wanted` (int[n]): float64[n]. O(n)."""
    enters = (seen.places == NONE) & (wanted != NONE)
    evaluated = _invocations(seen, NEVER_S)[1]
    work: Array = _MOVE_S + np.where(enters, _COVER_S * seen.in_memory, 0) + np.where(wanted == COMPLETE, evaluated, 0)
    return work + np.where(wanted == PAIRS, _PAIRING_S * seen.to_pair, 0)
