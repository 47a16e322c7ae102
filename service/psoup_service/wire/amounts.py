"""The amount that is kept of queries, on the wire and in the engine."""

from __future__ import annotations

from dataclasses import replace

from psoup.errors import InvalidInput
from psoup.plan.amounts import AUTO, NO_CHANGE, Amount, Keeping, KeepingChange, amount_change, asked_keeping
from psoup_proto.v1 import queries_pb2

_AMOUNTS: dict[queries_pb2.Amount.ValueType, str] = {
    queries_pb2.Amount.Value(f"AMOUNT_{name}"): name for name in (*(amount.name for amount in Amount), AUTO)
}
"""The names of the amounts that a request may ask for."""
_VALUES = {name: value for value, name in _AMOUNTS.items()}
_PREFIX = "AMOUNT_"
AMOUNT_NAMES = tuple(
    name.removeprefix(_PREFIX).lower()
    for name, value in sorted(queries_pb2.Amount.items(), key=lambda i: i[1])
    if value
)
"""The names of the amounts for people, as in clients: none, partial, and so on."""


def amount_named(name: str) -> queries_pb2.Amount.ValueType:
    """The amount with a name of `AMOUNT_NAMES`. Raises ValueError for any other name."""
    return queries_pb2.Amount.Value(f"{_PREFIX}{name.upper()}")


def amount_name(value: queries_pb2.Amount.ValueType) -> str:
    """The name of an amount, one of `AMOUNT_NAMES`. The amount must be set."""
    return queries_pb2.Amount.Name(value).removeprefix(_PREFIX).lower()


def amount_in(value: queries_pb2.Amount.ValueType) -> str:
    """The name of an amount; "" if the request has none. Raises InvalidInput for an unknown value."""
    if value == queries_pb2.AMOUNT_UNSPECIFIED:
        return ""
    if value not in _AMOUNTS:
        names = ", ".join(f"{name} ({number})" for number, name in sorted(_AMOUNTS.items()))
        raise InvalidInput(f"amount is {value}; it must be one of {names}, or unset", reason="AMOUNT", field="amount")
    return _AMOUNTS[value]


def keeping_in(request: queries_pb2.RegisterRequest | queries_pb2.RegisterManyRequest, default: str) -> Keeping:
    """The keeping that a registration asks for. `default`: the amount's name if it has none. Raises InvalidInput."""
    active = request.active if request.HasField("active") else not request.parked
    keeping = asked_keeping(amount_in(request.amount) or default)
    return replace(keeping, eager=request.eager, active=active, parked=request.parked)


def change_in(request: queries_pb2.AlterQueriesRequest) -> KeepingChange:
    """The change that a request asks for. Raises InvalidInput."""
    eager = request.eager if request.HasField("eager") else None
    active = request.active if request.HasField("active") else None
    parked = request.parked if request.HasField("parked") else None
    name = amount_in(request.amount)
    return replace(amount_change(name) if name else NO_CHANGE, eager=eager, active=active, parked=parked)


def write_keeping(keeping: Keeping, message: queries_pb2.Query) -> None:
    """Fill in the fields about the amount."""
    message.amount, message.amount_in_force = _VALUES[keeping.name], _VALUES[keeping.amount.name]
    message.eager, message.active, message.parked = keeping.eager, keeping.active, keeping.parked
