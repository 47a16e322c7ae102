"""A stream of events: the changes of one answer as notifications, until the client leaves.

active ─> Watch ─> event, event, …    heartbeat at least every 15 seconds    active, truncated: changes were missed
              └─ the query is gone, or the credential: terminated
"""

from __future__ import annotations

from typing import Any

from mcp import types
from mcp.server.session import ServerSession

from psoup.errors import NotFound, PSoupError, Unavailable
from psoup_proto.v1 import sync_pb2
from psoup_service.assistants.answer_changes import Changes, Merged
from psoup_service.assistants.calls import McpCalls
from psoup_service.assistants.copies import body_of
from psoup_service.assistants.cursors import Cursor
from psoup_service.assistants.errors import facts_of, rpc_code

_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
_HEARTBEAT_S = 15
_AGAIN = frozenset({"STREAM_AGE", "STREAM_IDLE"})
"""Reasons of Watch to end, after which the stream calls it again."""


class _Notification(types.Notification[dict[str, Any], str]):
    """A notification of the extension, which the SDK does not know."""


class EventStream:
    """A subscription of one client. `request_id`: the ID of its request, which each notification names."""

    def __init__(self, session: ServerSession, request_id: types.RequestId | None, calls: McpCalls, key: str) -> None:
        self._session = session
        self._request_id = request_id
        self._meta = {_SUBSCRIPTION: request_id}
        self._calls = calls
        self._key = key
        self._want = sync_pb2.Want(key=key)
        self._merged = Merged(key, b"", calls.bounds)

    async def run(self, looked: Changes) -> dict[str, Any]:
        """Send changes until the query is unregistered. `looked`: the changes so far. Returns the last reply."""
        await self._tell_position(looked.cursor, truncated=looked.truncated)
        if looked.event is not None:
            await self._tell("event", {**looked.event, "cursor": looked.cursor.text()})
        self._begin(looked.cursor.token)
        while True:
            request = sync_pb2.WatchRequest(
                wants=[self._want], encoding=sync_pb2.ENCODING_ARROW, progress_seconds=_HEARTBEAT_S
            )
            try:
                await self._calls.many("SyncService/Watch", request, self._take)
            except NotFound as problem:  # another query may have the key now
                if not self._want.token:
                    await self._terminate(problem)
                    break
                self._begin(b"")
            except Unavailable as problem:
                if problem.reason not in _AGAIN:
                    break  # the service ends; the client goes on from its cursor
            except PSoupError as problem:
                await self._terminate(problem)
                break
            else:
                break
        return {"resultType": "complete", "_meta": self._meta}

    def _begin(self, token: bytes) -> None:
        """Begin to merge changes since a position."""
        self._want.token = token
        self._merged = Merged(self._key, token, self._calls.bounds)

    async def _take(self, reply: Any) -> None:
        """Take a message of Watch. Raises the error of the want."""
        body = body_of(reply)
        if not body.outcomes:
            return
        page = await self._calls.forms.page(self._calls, self._want, body)
        await self._merged.add(page, self._calls)
        self._want.token = page.token
        if not self._merged.complete:
            return
        cursor = Cursor(body.clock, page.token)
        if self._merged.was_reset:
            await self._tell_position(cursor, truncated=True)
        elif (event := self._merged.event(body.clock)) is not None:
            await self._tell("event", {**event, "cursor": cursor.text()})
        else:
            await self._tell("heartbeat", {"cursor": cursor.text()})
        self._begin(page.token)

    async def _tell_position(self, cursor: Cursor, *, truncated: bool) -> None:
        await self._tell("active", {"cursor": cursor.text(), "truncated": truncated})

    async def _terminate(self, error: PSoupError) -> None:
        facts = facts_of(error)
        await self._tell("terminated", {"error": {"code": rpc_code(error), "message": facts["message"], "data": facts}})

    async def _tell(self, name: str, params: dict[str, Any]) -> None:
        """Send a notification. Returns when there is room for the next one."""
        notification = _Notification(method=f"notifications/events/{name}", params={**params, "_meta": self._meta})
        await self._session.send_notification(notification, self._request_id)  # type: ignore[arg-type]
