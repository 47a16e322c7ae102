"""Changes of how queries are kept: the decision, and its event.

    selection     as for a removal of many queries (`psoup.admission.queries.removal`)
    event         only the queries that are kept otherwise than asked; without any, there is no event

The function changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from psoup.admission.budget import charged_less
from psoup.admission.catalog import KnownStream
from psoup.admission.queries.registry_state import RegistryState
from psoup.admission.queries.removal import selected_queries
from psoup.errors import InvalidInput
from psoup.events.acknowledgements import AlterationAcknowledgement, Prepared
from psoup.events.commands import AlterQueries
from psoup.events.events import QueriesAltered
from psoup.plan.amounts import Amount, Keeping, KeepingChange, idle_codes, inactive_codes, parked_codes
from psoup.values.columns import Array

MOST_NAMED = 1 << 20
"""The most query IDs of one call."""


def decide_alter_queries(
    command: AlterQueries, standing: RegistryState, streams: Mapping[int, KnownStream], place: tuple[int, int]
) -> Prepared:
    """Decide on a change of some queries. `place`: the sequence that the event gets, and the clock time.

    Raises NotFound, with missing IDs or an unknown label, and InvalidInput. Raises ResourceExhausted if idle queries
    would enter the index above the memory budget or the quota `query_bytes`. O(queries) in NumPy.
    """
    change, (sequence, now) = command.change, place
    check_change(change, standing.parks)
    if command.query_ids is not None and len(command.query_ids) > MOST_NAMED:
        raise InvalidInput(
            f"the call names {len(command.query_ids):,} queries; {MOST_NAMED:,} is the most, send it in parts, or"
            " select the queries by labels or by a prefix of keys",
            reason="BLOCK_TOO_LARGE",
            found=len(command.query_ids),
            limit=MOST_NAMED,
        )
    if command.unused and command.query_ids is not None:
        ids = _unused(command.query_ids, standing)
    else:
        ids = selected_queries(command, standing.owners, streams, standing.tags, "altered")
    before = standing.keepings.codes(ids)
    after = change.of(before)
    changed = ids[np.flatnonzero(before != after)]
    more = np.flatnonzero(idle_codes(before) & ~idle_codes(after) | parked_codes(before) & ~parked_codes(after))
    if len(more):
        needed = charged_less(before[more]) - charged_less(after[more])
        standing.budget.check_queries(needed, len(more))
        standing.judge.check_entering(command.tenant, len(more), needed)
    if command.dry_run or not len(changed):
        return Prepared(AlterationAcknowledgement(sequence - 1, count=len(ids), changed=len(changed)))
    event = QueriesAltered(sequence, command.tenant, changed, change, now)
    return Prepared(AlterationAcknowledgement(sequence, count=len(ids), changed=len(changed)), event)


def _unused(query_ids: Array, standing: RegistryState) -> Array:
    """The queries among some (int64[k], ascending) that are inactive and not parked."""
    ids = query_ids[standing.owners.stand(query_ids)]
    codes = standing.keepings.codes(ids)
    return ids[inactive_codes(codes) & ~parked_codes(codes)]


def check_change(change: KeepingChange, parks: bool) -> None:
    """Raise InvalidInput for a change of nothing, or of `eager` together with an amount that has no eager form.

    Also for queries that would be both parked and active. `parks`: whether there is a log to read parked queries from.
    """
    if change.is_empty:
        raise InvalidInput("say what to change: amount, eager, active or parked", reason="NO_CHANGE")
    if change.parked:
        _check_parked(bool(change.active), parks)
    if change.eager and change.amount not in (None, Amount.COMPLETE):
        raise _not_eager(change.name)


def check_keeping(keeping: Keeping, parks: bool) -> None:
    """Raise InvalidInput for a new query that would be eager and not COMPLETE, or both parked and active."""
    if keeping.parked:
        _check_parked(keeping.active, parks)
    if keeping.eager and keeping.amount is not Amount.COMPLETE:
        raise _not_eager(keeping.name)


def _not_eager(name: str) -> InvalidInput:
    return InvalidInput(
        f"eager is for queries with amount COMPLETE, and this amount is {name}; take COMPLETE, or leave eager out",
        reason="EAGER",
        field="eager",
    )


def _check_parked(active: bool, parks: bool) -> None:
    if active:
        raise InvalidInput(
            "a parked query is inactive, and this call says active; leave one of the two out",
            reason="PARKED",
            field="parked",
        )
    if not parks:
        raise InvalidInput(
            "parked queries are read from the log, and this engine has none; say inactive instead of parked",
            reason="PARKED",
            field="parked",
        )
