"""The amount of a query as EXPLAIN shows it, with the reason if it is not the usual one."""

from __future__ import annotations

from psoup.plan.amounts import AS_USUAL, Amount, Keeping


def amount_reason(keeping: Keeping, *, guest: bool) -> str:
    """The consequence of an amount for an invocation, or the reason why the query is not kept by its amount. "" for
    the usual amount. `guest`: whether other queries keep the matches of all its clauses."""
    if not keeping.active:
        state = "parked (inactive, and not in memory)" if keeping.parked else "inactive"
        return f"{state}: evaluated at each invocation, and not told of new tuples; its amount is {keeping.name}"
    if keeping.amount is Amount.NONE and guest:
        return "amount is NONE: answered from the matches that another query keeps"
    if keeping.amount is Amount.NONE:
        return "amount is NONE: evaluated at each invocation"
    return ""


def amount_lines(keeping: Keeping, reason: str) -> list[str]:
    """The amount as text for a terminal, with the result of `amount_reason`. Nothing for the usual amount."""
    if keeping.active and keeping.name == AS_USUAL.name:
        return []
    amount = keeping.name if keeping.active else Amount.NONE.name
    eager = ", eager" if keeping.ahead else ""
    return [f"  amount   {amount}{eager}", *([f"           {reason}"] if reason else [])]
