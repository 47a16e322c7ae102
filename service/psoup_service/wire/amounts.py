"""The amount that is kept of queries, on the wire and in the engine."""

from __future__ import annotations

from psoup.errors import InvalidInput
from psoup.plan.amounts import Amount, Keeping, KeepingChange
from psoup_proto.v1 import queries_pb2

_AMOUNTS: dict[queries_pb2.Amount.ValueType, Amount] = {
    queries_pb2.Amount.Value(f"AMOUNT_{amount.name}"): amount for amount in Amount
}
_VALUES = {amount: value for value, amount in _AMOUNTS.items()}
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
    """The name of an amount that is set."""
    return queries_pb2.Amount.Name(value).removeprefix(_PREFIX).lower()


def amount_in(value: queries_pb2.Amount.ValueType) -> Amount | None:
    """The engine's amount; None if the request has none. Raises InvalidInput for an unknown value."""
    if value == queries_pb2.AMOUNT_UNSPECIFIED:
        return None
    if value not in _AMOUNTS:
        names = ", ".join(f"{amount.name} ({number})" for number, amount in sorted(_AMOUNTS.items()))
        raise InvalidInput(f"amount is {value}; it must be one of {names}, or unset", reason="AMOUNT", field="amount")
    return _AMOUNTS[value]


def keeping_in(request: queries_pb2.RegisterRequest | queries_pb2.RegisterManyRequest, default: Amount) -> Keeping:
    """The keeping that a registration asks for. `default`: the amount if it names none. Raises InvalidInput."""
    active = request.active if request.HasField("active") else not request.parked
    return Keeping(amount_in(request.amount) or default, request.eager, active, request.parked)


def change_in(request: queries_pb2.AlterQueriesRequest) -> KeepingChange:
    """The change that a request asks for. Raises InvalidInput."""
    eager = request.eager if request.HasField("eager") else None
    active = request.active if request.HasField("active") else None
    parked = request.parked if request.HasField("parked") else None
    return KeepingChange(amount_in(request.amount), eager, active, parked)


def write_keeping(keeping: Keeping, message: queries_pb2.Query) -> None:
    """Fill in the fields about the amount."""
    message.amount, message.eager = _VALUES[keeping.amount], keeping.eager
    message.active, message.parked = keeping.active, keeping.parked
