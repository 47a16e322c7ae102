"""Errors for an assistant: facts by which a model can correct its statement, and codes of JSON-RPC.

SqlError ──> {"code": "INVALID_ARGUMENT", "reason": "UNKNOWN_COLUMN", "line": 1, "column": 8, "hint": …, …}
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from psoup.errors import InvalidInput, PSoupError, SqlError
from psoup_service.assistants.facts import Facts
from psoup_service.wire.status import code_of, status_of

INVALID_PARAMS = -32602
NOT_FOUND = -32023
FORBIDDEN = -32024
RESOURCE_EXHAUSTED = -32025
UNSUPPORTED = -32026
CALLBACK_ENDPOINT = -32027
INTERNAL = -32603
_RPC_CODES = {
    "NOT_FOUND": NOT_FOUND,
    "UNAUTHENTICATED": FORBIDDEN,
    "PERMISSION_DENIED": FORBIDDEN,
    "RESOURCE_EXHAUSTED": RESOURCE_EXHAUSTED,
    "UNIMPLEMENTED": UNSUPPORTED,
    "INTERNAL": INTERNAL,
    "UNAVAILABLE": INTERNAL,
}
"""The codes of MCP for codes of gRPC. Other errors are the caller's: INVALID_PARAMS."""

_PROBLEMS = 5
"""Wrong arguments that an error names at most."""


class ErrorFacts(Facts):
    """An error. `line` and `column` count from 1, in the text of the statement."""

    code: str
    reason: str
    message: str
    problem: str | None = None
    line: int | None = None
    column: int | None = None
    hint: str | None = None
    retry_after_ms: int | None = None


def facts_of(error: PSoupError) -> dict[str, Any]:
    """The facts of an error. Long texts are cut."""
    facts = ErrorFacts(code=code_of(error).name, reason=error.reason, message=status_of(error).message)
    if isinstance(error, SqlError):
        facts.problem, facts.line, facts.column = error.problem, error.line, error.column
        if error.hint:
            facts.hint = error.hint
    if "retry_after_ms" in error.facts:
        facts.retry_after_ms = int(error.facts["retry_after_ms"])
    return facts.model_dump(exclude_unset=True)


def rpc_code(error: PSoupError) -> int:
    """The code of an error in JSON-RPC."""
    return _RPC_CODES.get(code_of(error).name, INVALID_PARAMS)


def wrong_arguments(problem: ValidationError, names: list[str], within: str = "") -> InvalidInput:
    """The error for arguments that are not valid. `names`: of all arguments. `within`: the field with them."""
    wrong = []
    for fault in problem.errors(include_url=False, include_input=False, include_context=False)[:_PROBLEMS]:
        place = ".".join(map(str, (*[within] * bool(within), *fault["loc"])))[:100]
        if fault["type"] == "extra_forbidden":
            wrong.append(f"there is no argument {place!r}; there are {', '.join(names)}")
        elif fault["type"] == "missing":
            wrong.append(f"the argument {place} is missing")
        else:
            said = fault["msg"].removeprefix("Value error, ")
            wrong.append(f"{place}: {said}" if place else said)
    return InvalidInput("; ".join(wrong), reason="ARGUMENTS")
