"""The server of the SDK with the tools. The SDK speaks the protocol, and the tools make the calls.

tools/list ─> the tools that the caller's roles allow
tools/call ─> the tool ─> a result as JSON, twice: as structured content, and as a text for older clients
"""

from __future__ import annotations

import logging
from importlib import metadata
from typing import Any

import orjson
from mcp import types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from psoup.errors import PermissionDenied, PSoupError
from psoup_service.assistants.errors import INTERNAL, INVALID_PARAMS, facts_of, rpc_code
from psoup_service.assistants.events import Events
from psoup_service.assistants.request_calls import calls_of
from psoup_service.assistants.tool import Tool
from psoup_service.assistants.tools import BY_NAME, TOOLS

_NAME = "psoup"
_log = logging.getLogger(__name__)
_INSTRUCTIONS = """\
PSoup keeps the answers to standing SQL queries over streams ready. Begin with list. A SELECT reads one stream or table,
or joins several, and may end with a window: BEGIN (NOW - 1 HOUR) END (NOW). Streams have the pseudo-columns _id and
_time. Use ask for a question that is asked once, and register for one that is asked often; then invoke it by its key.
An answer says how complete it is, and how many rows it leaves out. An error has the line and column of the fault.
"""


def made_server(events: Events) -> Server[Any]:
    """The server of all clients."""
    server = Server[Any](
        _NAME,
        version=metadata.version("psoup"),
        title="PSoup",
        instructions=_INSTRUCTIONS,
        get_tool_input_schema=lambda name: BY_NAME[name].input_schema if name in BY_NAME else None,
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
    )
    server.middleware[:] = [_with_errors]  # spans of calls are made where all protocols have them
    events.add_to(server)
    return server


async def _with_errors(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Handle a message. Errors become errors of JSON-RPC, and defects are logged."""
    try:
        return await call_next(ctx)
    except (MCPError, ValidationError):
        raise
    except PSoupError as error:
        facts = facts_of(error)
        raise MCPError(rpc_code(error), facts["message"], facts) from None
    except Exception as defect:
        _log.exception("a defect ended a request of an assistant", extra={"call": ctx.method})
        raise MCPError(INTERNAL, f"the request failed by a defect ({type(defect).__name__})") from None


async def _list_tools(
    context: ServerRequestContext[Any, Any], _: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    calls = calls_of(context)
    return types.ListToolsResult(tools=[_described(tool) for tool in TOOLS if calls.may(tool.calls)])


async def _call_tool(
    context: ServerRequestContext[Any, Any], given: types.CallToolRequestParams
) -> types.CallToolResult:
    tool = BY_NAME.get(given.name)
    if tool is None:
        names = ", ".join(BY_NAME)
        raise MCPError(INVALID_PARAMS, f"there is no tool {given.name[:64]!r}; there are {names}")
    calls = calls_of(context)
    try:
        if not calls.may(tool.calls):
            raise PermissionDenied(f"the roles of this caller do not allow the tool {tool.name}", reason="ROLE")
        result = await tool.call(calls, given.arguments or {})
        facts = result.model_dump(exclude_unset=True)
    except PSoupError as error:
        return _failed(error)
    return _result(facts, orjson.dumps(facts).decode(), failed=False)


def _result(facts: dict[str, Any], text: str, *, failed: bool) -> types.CallToolResult:
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=text)]
    return types.CallToolResult(content=content, structured_content=facts, is_error=failed)


def _failed(error: PSoupError) -> types.CallToolResult:
    facts = facts_of(error)
    return _result({"error": facts}, facts["message"], failed=True)


def _described(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.text,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.reads,
            destructive_hint=tool.destroys,
            idempotent_hint=True,
            open_world_hint=False,
        ),
    )
