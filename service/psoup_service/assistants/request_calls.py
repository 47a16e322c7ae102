"""The calls of a request. The endpoint puts them into the ASGI scope, and handlers read them there."""

from __future__ import annotations

from typing import Any

from mcp.server.context import ServerRequestContext
from starlette.types import Scope

from psoup_service.assistants.calls import McpCalls

_CALLS = "psoup.calls"


def put_calls(scope: Scope, calls: McpCalls) -> None:
    """Put the calls of a request into its scope."""
    scope[_CALLS] = calls


def calls_of(context: ServerRequestContext[Any, Any]) -> McpCalls:
    """The calls of a request."""
    assert context.request is not None, "a request comes over HTTP"
    calls: McpCalls = context.request.scope[_CALLS]
    return calls
