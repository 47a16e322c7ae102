"""The amount that the service keeps of a query's answer, by the names that callers use.

register(sql, amount="none")   ──>   AMOUNT_NONE       no amount   ──>   AMOUNT_UNSPECIFIED: the service's default
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict, get_args

from psoup_client import html
from psoup_proto.v1 import queries_pb2

Amount = Literal["none", "partial", "complete", "auto"]

AMOUNTS: tuple[Amount, ...] = get_args(Amount)
"""The names of the amounts. With `auto`, the service chooses the amount."""


@dataclass(frozen=True, slots=True)
class Altered(html.Facts):
    """The result of `alter_queries`: the number of queries that the call selected, and how many of them changed."""

    count: int
    changed: int


class Keeping(TypedDict):
    """The fields of a registration that say how the queries are kept."""

    amount: queries_pb2.Amount.ValueType
    eager: bool
    active: bool | None
    parked: bool


def keeping_of(
    amount: Amount | None = None, eager: bool = False, active: bool | None = None, parked: bool = False
) -> Keeping:
    """Convert the arguments of a registration. Raises ValueError for a wrong amount, and TypeError for a wrong type."""
    check_flag("eager", eager)
    if active is not None:
        check_flag("active", active)
    check_flag("parked", parked)
    return {"amount": amount_to_proto(amount), "eager": eager, "active": active, "parked": parked}


def altering_of(
    query_ids: Sequence[str],
    labels: Mapping[str, str] | None = None,
    key_prefix: str | None = None,
    *,
    amount: Amount | None,
    eager: bool | None,
    active: bool | None,
    parked: bool | None = None,
    dry_run: bool = False,
) -> queries_pb2.AlterQueriesRequest:
    """Build a request that alters queries. Raises the errors of `keeping_of`, and ValueError if it alters nothing."""
    if amount is None and eager is None and active is None and parked is None:
        raise ValueError("say what to change: amount, eager, active or parked")
    for name, flag in (("eager", eager), ("active", active), ("parked", parked)):
        if flag is not None:
            check_flag(name, flag)
    return queries_pb2.AlterQueriesRequest(
        query_ids=query_ids,
        labels=labels,
        key_prefix=key_prefix or "",
        amount=amount_to_proto(amount),
        eager=eager,
        active=active,
        parked=parked,
        dry_run=dry_run,
    )


def amount_to_proto(amount: Amount | None) -> queries_pb2.Amount.ValueType:
    """Convert an amount to its value on the wire; None is unspecified. Raises ValueError for any other text."""
    if amount is None:
        return queries_pb2.AMOUNT_UNSPECIFIED
    if amount not in AMOUNTS:
        raise ValueError(f"amount is {amount!r}; take one of {', '.join(AMOUNTS)}")
    return queries_pb2.Amount.Value(f"AMOUNT_{amount.upper()}")


def amount_name(amount: queries_pb2.Amount.ValueType) -> str:
    """Return the name of an amount on the wire."""
    return queries_pb2.Amount.Name(amount).removeprefix("AMOUNT_").lower()


def check_flag(name: str, value: object) -> None:
    """Raise TypeError if the argument `name` is neither true nor false."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}: give True or False")
