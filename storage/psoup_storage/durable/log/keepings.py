"""The keeping of queries in rows of the log: three facts of a body, of which the defaults are left out.

amount    "NONE", "PARTIAL" or "COMPLETE"
eager     whether the answer of a COMPLETE query is kept eagerly
active    whether the query is active
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psoup.plan.amounts import AS_USUAL, Amount, Keeping


def keeping_facts(keeping: Keeping) -> dict[str, Any]:
    """The facts of a registration about the keeping of its queries."""
    facts: dict[str, Any] = {}
    if keeping.amount is not AS_USUAL.amount:
        facts["amount"] = keeping.amount.name
    if keeping.eager != AS_USUAL.eager:
        facts["eager"] = keeping.eager
    if keeping.active != AS_USUAL.active:
        facts["active"] = keeping.active
    return facts


def keeping_in(facts: Mapping[str, Any]) -> Keeping:
    """The keeping in the facts of a registration. Raises KeyError for an unknown amount."""
    amount = Amount[facts["amount"]] if "amount" in facts else AS_USUAL.amount
    return Keeping(amount, facts.get("eager", AS_USUAL.eager), facts.get("active", AS_USUAL.active))
