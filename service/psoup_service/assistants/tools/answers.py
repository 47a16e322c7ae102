"""The tools `ask` and `invoke`: the answer of a SELECT, once, and the answer of a registered query."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from psoup_proto.v1 import queries_pb2, statements_pb2
from psoup_service.assistants.calls import McpCalls
from psoup_service.assistants.rows import AnswerFacts, answer
from psoup_service.assistants.tool import Bounded, OfQuery, Tool, instant

_WINDOW = "Replaces the window of the query: BEGIN (NOW - 1 HOUR) END (NOW)"
_AS_OF = "The time that NOW means in this answer (ISO 8601)"


class AskArguments(Bounded):
    """Arguments of `ask`."""

    sql: str = Field(description="A SELECT over streams and tables")
    as_of: str | None = Field(default=None, description=_AS_OF)
    window: str | None = Field(default=None, description=_WINDOW)


class InvokeArguments(OfQuery, Bounded):
    """Arguments of `invoke`."""

    as_of: str | None = Field(default=None, description=_AS_OF)
    window: str | None = Field(default=None, description=_WINDOW)


async def _ask(calls: McpCalls, given: AskArguments) -> AnswerFacts:
    common: dict[str, Any] = {
        "statement": given.sql,
        "window": given.window or "",
        "as_of": instant(given.as_of, "as_of"),
    }
    whole = "StatementService/Ask", statements_pb2.AskRequest(**common)
    pieces = "StatementService/AskStream", statements_pb2.AskStreamRequest(**common)
    return await answer(calls, given.bounds(calls), whole, pieces, statements_pb2.AskStreamResponse)


async def _invoke(calls: McpCalls, given: InvokeArguments) -> AnswerFacts:
    common: dict[str, Any] = {
        **given.named,
        "window": given.window or "",
        "as_of": instant(given.as_of, "as_of"),
    }
    whole = "QueryService/Invoke", queries_pb2.InvokeRequest(**common)
    pieces = "QueryService/InvokeStream", queries_pb2.InvokeStreamRequest(**common)
    return await answer(calls, given.bounds(calls), whole, pieces, queries_pb2.InvokeStreamResponse)


_LIMITS = "The reply has the first rows, how many more there are (more_rows), and how complete the answer is."

ASK = Tool(
    "ask",
    "Ask once",
    "Answer a SELECT over streams and tables now, without registering it. A window may stand at its end:"
    " SELECT sym, price FROM trades WHERE price > 10 BEGIN (NOW - 1 HOUR). " + _LIMITS,
    AskArguments,
    AnswerFacts,
    ("StatementService/Ask", "StatementService/AskStream"),
    _ask,
)

INVOKE = Tool(
    "invoke",
    "Read a standing query",
    "Read the present answer of a registered query, which the service keeps ready. " + _LIMITS,
    InvokeArguments,
    AnswerFacts,
    ("QueryService/Invoke", "QueryService/InvokeStream"),
    _invoke,
)
