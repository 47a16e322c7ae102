"""The tools `register` and `unregister`: queries whose answers the service keeps ready."""

from __future__ import annotations

from pydantic import Field, field_validator

from psoup_proto.v1 import queries_pb2
from psoup_service.assistants.calls import McpCalls
from psoup_service.assistants.facts import Facts
from psoup_service.assistants.tool import Arguments, OfQuery, Tool
from psoup_service.wire.amounts import AMOUNT_NAMES, amount_name, amount_named


class RegisterArguments(Arguments):
    """Arguments of `register`."""

    key: str = Field(min_length=1, description="A name for the query, by which invoke and changes find it")
    sql: str = Field(description="A SELECT, which may end with a window: BEGIN (NOW - 1 HOUR)")
    labels: dict[str, str] = Field(
        default_factory=dict, max_length=8, description="Names and values to find the query by"
    )
    expires_after: str | None = Field(
        default=None, description="The time without use after which the query is unregistered, such as 30 DAYS"
    )
    replace: bool = Field(default=False, description="Replace another query that has the key")
    amount: str | None = Field(
        default=None,
        json_schema_extra={"enum": [*AMOUNT_NAMES]},
        description="How much the service keeps of the answer. It changes no answer. partial suits most queries; none,"
        " a query that is asked seldom; complete, one that is asked much more often than its answer changes. The"
        " default is a setting of the service",
    )
    active: bool = Field(
        default=True,
        description="False: new tuples cost nothing for the query, and matches leave it out, until"
        " a client activates it. It can be invoked",
    )

    @field_validator("amount")
    @classmethod
    def _known(cls, amount: str | None) -> str | None:
        if amount is not None and amount not in AMOUNT_NAMES:
            raise ValueError(f"amount is {amount[:64]!r}; it must be one of {', '.join(AMOUNT_NAMES)}")
        return amount


class Registered(Facts):
    """A registered query. `existed`: the same query had the key before. Then `amount` and `active` stay as they were.

    `sequence`: the event of the registration.
    """

    key: str
    query_id: str
    existed: bool
    amount: str
    active: bool
    sequence: int


class Unregistered(Facts):
    """The event that unregistered a query."""

    query_id: str
    sequence: int


async def visible(calls: McpCalls, sequence: int) -> None:
    """Wait until all calls see an event, because the next request of an assistant does not name it."""
    await calls.one("QueryService/WaitForSequence", queries_pb2.WaitForSequenceRequest(sequence=sequence))


async def _register(calls: McpCalls, given: RegisterArguments) -> Registered:
    request = queries_pb2.RegisterRequest(
        statement=given.sql,
        key=given.key,
        labels=given.labels,
        expires_after=given.expires_after or "",
        replace=given.replace,
        active=given.active,
    )
    if given.amount is not None:
        request.amount = amount_named(given.amount)
    reply = await calls.one("QueryService/Register", request)
    await visible(calls, reply.sequence)
    return Registered(
        key=given.key,
        query_id=reply.query.query_id,
        existed=reply.duplicate,
        amount=amount_name(reply.query.amount),
        active=reply.query.active,
        sequence=reply.sequence,
    )


async def _unregister(calls: McpCalls, given: OfQuery) -> Unregistered:
    query_id = given.query_id
    if query_id is None:
        reply = await calls.one("QueryService/GetQuery", queries_pb2.GetQueryRequest(key=given.key or ""))
        query_id = str(reply.query.query_id)
    reply = await calls.one("QueryService/Unregister", queries_pb2.UnregisterRequest(query_id=query_id))
    await visible(calls, reply.sequence)
    return Unregistered(query_id=query_id, sequence=reply.sequence)


REGISTER = Tool(
    "register",
    "Register a standing query",
    "Register a SELECT under a key. The service keeps its answer ready for invoke, and tells its changes. The same call"
    " again is harmless.",
    RegisterArguments,
    Registered,
    ("QueryService/Register",),
    _register,
    reads=False,
)

UNREGISTER = Tool(
    "unregister",
    "Forget a standing query",
    "Unregister a query. Its key is free again, and its answer is not kept any more. Tuples stay.",
    OfQuery,
    Unregistered,
    ("QueryService/Unregister", "QueryService/GetQuery"),
    _unregister,
    reads=False,
    destroys=True,
)
