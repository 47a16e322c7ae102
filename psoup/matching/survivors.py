"""Survivors: tuples that pass a clause's fast factors, and need its slow expressions.

    a = 5 AND n LIKE '%x%'      a = 5 ──> tuples 3 17 90 ─┐
    a = 8 AND n LIKE '%x%'      a = 8 ──> tuples 4 17 ────┴─> n LIKE '%x%' of the tuples 3 4 17 90; elsewhere unknown

If too many tuples survive, or a clause has no other factor, the expression is evaluated over the whole piece. Then it
is not delayed for the next `_PAUSE` pieces. There is one exception: all clauses of an expression may also read a
lighter delayed expression. Then only the lighter one is no longer delayed, and may leave few tuples for the other.

A tuple that does not survive has an unknown value, which is in no interval. It decides nothing, because another factor
of the clause is false for the tuple. If another factor has an error, the value is evaluated. It may decide whether the
error counts (`psoup.results.failures`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from psoup.clauses.cheap_clauses import Stripped, listed, strip
from psoup.clauses.error_clauses import with_errors
from psoup.clauses.index.bounds import distinct
from psoup.clauses.index.predicate_index import Part
from psoup.clauses.sides import Side
from psoup.config import EngineConfig
from psoup.data.data_stem import Piece
from psoup.data.values import Values
from psoup.expressions import deferral
from psoup.expressions.tree import Expr
from psoup.matching.shard import ShardJoin
from psoup.results.open import OpenResults
from psoup.results.runs import MatchRun
from psoup.values.columns import Array

_PAUSE = 16
"""The pieces for which an attribute is not delayed after too many tuples needed it."""
_MAX_PAIRS = 1 << 22
"""The approximate limit of the pairs for which a join allocates memory."""
_SHARD = -1
"""The scratch number of these joins."""


def may_wait(side: Side, derived: Mapping[int, Expr], piece: Piece) -> set[int]:
    """The derived attributes that may be delayed in this piece."""
    if len(piece) < deferral.LEAST_ROWS:
        return set()
    return {a for a, expr in derived.items() if deferral.may_wait(expr) and side.waits.due(a)}


def survivors(side: Side, waits: Collection[int], values: Mapping[int, Values], needed: Array) -> dict[int, Array]:
    """For each attribute worth delaying, the tuples that need it: int64, ascending.

    `values`: the values of all attributes that are not delayed. `needed`: uint8[waits, n], by ascending attribute ID, 1
    for tuples that need the value in any case. This function sets further flags in it. An attribute that many tuples
    need is not in the result. O(tuples * attributes + pairs of a stripped clause and a tuple that passes it).
    """
    order, rows = {attribute: place for place, attribute in enumerate(sorted(waits))}, needed.shape[1]
    for number, part in enumerate(part for part in side.parts if part.live):
        stripped = _stripped(side, part, waits)
        if stripped is not None:
            _mark(side, number, stripped, values, order, needed)
    tuples_needed = {}
    for attribute, place in order.items():
        here = np.flatnonzero(needed[place])
        if len(here) * deferral.WORTH <= rows:
            tuples_needed[attribute] = here
    many = set(order) - set(tuples_needed)
    for attribute in many & _lightest(side, waits) if len(many) > 1 else many:
        side.waits.pause(attribute, _PAUSE)
    return tuples_needed


def _lightest(side: Side, waits: Collection[int]) -> set[int]:
    """The attributes of `waits` that are the lightest delayed attribute of some clause."""
    ids: Array = np.array(sorted(waits), np.int64)
    weights: Array = np.array([deferral.weight(side.attributes[attribute]) for attribute in ids.tolist()], np.int64)
    ranks = np.empty(len(ids), np.int64)
    ranks[np.lexsort((ids, weights))] = np.arange(len(ids))
    lightest = {a for _, plan in side.searched for a in plan.stripped.part.index.attributes.tolist()}
    for part in side.parts:
        stripped = _stripped(side, part, waits) if part.live else None
        if stripped is None:
            continue
        for pointers, attributes in (
            (stripped.waits_ptr, stripped.waits),
            (stripped.bare_waits_ptr, stripped.bare_waits),
        ):
            if len(attributes):
                ranks_of_clauses = np.minimum.reduceat(ranks[np.searchsorted(ids, attributes)], pointers[:-1])
                lightest.update(ids[np.argsort(ranks)[distinct(ranks_of_clauses)]].tolist())
    return lightest


def _stripped(side: Side, part: Part, waits: Collection[int]) -> Stripped | None:
    """The clauses of a part that read some of `waits`, without the factors on these. None if no clause does.

    A remaining factor with an error is true. Computed once while the attributes stay the same.
    """
    flags: Array = np.isin(part.index.attributes, [*waits])
    if not flags.any():
        return None
    stripped = part.extra(Stripped)
    if stripped is None or not np.array_equal(stripped.waiting, flags):
        stripped = strip(part, flags)
        left = stripped.part.index
        computed = side.computed(left.attributes)
        if computed.any():
            stripped = replace(stripped, part=Part.of(with_errors(left, computed, listed(len(left)))))
        part.keep(stripped)
    return stripped


def _mark(
    side: Side,
    number: int,
    stripped: Stripped,
    values: Mapping[int, Values],
    order: Mapping[int, int],
    needed: Array,
) -> None:
    """Set needed[place of attribute, tuple] for the attributes that the clauses of a part need."""
    stripped.renew()
    rows, part = needed.shape[1], stripped.part
    for attribute in set(stripped.bare_attributes().tolist()):
        needed[order[attribute]] = 1
    if not part.live:
        return
    pairs = candidates(side, number, part, values, rows)
    places: Array = np.zeros(max(order) + 1, np.int64)
    places[[*order]] = [*order.values()]
    _, attributes = stripped.attributes_of(pairs.many)
    needed[places[np.unique(attributes)]] = 1
    for run in pairs.runs:
        pair, attributes = stripped.attributes_of(run.slots)
        needed[places[attributes], run.offsets[pair]] = 1


@dataclass(frozen=True, slots=True)
class Candidates:
    """Pairs of a stripped clause and a tuple that passes it, as runs.

    `many`: int64, clauses with too many passing tuples, which have no pairs.
    """

    runs: Sequence[MatchRun]
    many: Array


def candidates(side: Side, number: int, part: Part, values: Mapping[int, Values], rows: int) -> Candidates:
    """Find the pairs of a clause of `part` and a tuple that passes it, among `rows` tuples."""
    share = max(deferral.WORTH, len(part.index) * rows // _MAX_PAIRS)
    aside = OpenResults(side.config, len(part.index))
    join = ShardJoin(part, values, 0, rows, _config(side.config, share), [side.scratch.of(_SHARD, number)])
    join.encode()
    join.match(aside)
    return Candidates(join.runs, join.needs())


@lru_cache(64)
def _config(config: EngineConfig, share: int) -> EngineConfig:
    """The configuration of a join in which a clause has pairs for up to 1 in `share` tuples, and no bits."""
    return replace(config, dense_share=1 << (share - 1).bit_length(), generous_rows=-1)
