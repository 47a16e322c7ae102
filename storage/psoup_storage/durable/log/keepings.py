"""The keeping of queries in rows of the log: three facts of a body.

amount    "NONE", "PARTIAL", "COMPLETE" or "AUTO". The choices of AUTO are not in the log.
eager     whether the answer of a COMPLETE query is kept eagerly.
active    whether the query is active.
parked    whether the query is parked.

A registration leaves the defaults out. A row of the kind `altered` leaves out the parts that it does not change. Its
column `tuples` has the IDs of its queries.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from psoup.events.events import QueriesAltered
from psoup.plan.amounts import AS_USUAL, NO_CHANGE, Keeping, amount_change, asked_keeping
from psoup_storage.durable.log.rows import INT64, LogRow, checked_tuples, new_row


def keeping_facts(keeping: Keeping) -> dict[str, Any]:
    """The facts of a registration about the keeping of its queries."""
    facts: dict[str, Any] = {}
    if keeping.name != AS_USUAL.name:
        facts["amount"] = keeping.name
    if keeping.eager != AS_USUAL.eager:
        facts["eager"] = keeping.eager
    if keeping.active != AS_USUAL.active:
        facts["active"] = keeping.active
    if keeping.parked != AS_USUAL.parked:
        facts["parked"] = keeping.parked
    return facts


def keeping_in(facts: Mapping[str, Any]) -> Keeping:
    """The keeping in the facts of a registration. Raises KeyError for an unknown amount."""
    keeping = asked_keeping(facts.get("amount", AS_USUAL.name))
    return replace(
        keeping, **{name: facts.get(name, getattr(AS_USUAL, name)) for name in ("eager", "active", "parked")}
    )


def encode_alteration(event: QueriesAltered) -> LogRow:
    """The row of a change."""
    change, ids = event.change, event.query_ids.astype(INT64).tobytes()
    facts: dict[str, Any] = {"tenant": event.tenant, "time": event.time}
    facts |= {"amount": change.name} if change.name else {}
    facts |= {} if change.eager is None else {"eager": change.eager}
    facts |= {} if change.active is None else {"active": change.active}
    facts |= {} if change.parked is None else {"parked": change.parked}
    return new_row(event.sequence, "altered", 0, None, ids, **facts, ids=len(event.query_ids), crc=zlib.crc32(ids))


def decode_alteration(row: LogRow, facts: Mapping[str, Any]) -> QueriesAltered:
    """The event of a row of the kind `altered`. Raises KeyError for an unknown amount, Internal for damaged IDs."""
    amount = amount_change(facts["amount"]) if "amount" in facts else NO_CHANGE
    change = replace(amount, eager=facts.get("eager"), active=facts.get("active"), parked=facts.get("parked"))
    ids = np.frombuffer(checked_tuples(row, dict(facts)), INT64)
    return QueriesAltered(row.sequence, facts["tenant"], ids, change, facts["time"])
