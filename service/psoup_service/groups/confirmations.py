"""Confirmations of groups: events of the log at a bounded rate. Confirmations of one group that meet become one.

confirm(mailer) confirm(mailer) confirm(pager) ── a round ──> two events, one sync ──> three replies
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from psoup.events.acknowledgements import Acknowledgement
from psoup.events.commands import Command
from psoup.events.groups import ConfirmGroup, GroupKey, later_positions

ROUND_S = 0.02
"""The least seconds between the beginnings of two rounds."""

MOST_GROUPS = 16
"""The most groups of a round. So there are at most 800 events a second."""


@dataclass(slots=True)
class _Pending:
    tenant: str
    positions: bytes
    replies: list[asyncio.Future[int]] = field(default_factory=list)


class Confirmations:
    """Sends confirmations to the log. For the event loop."""

    def __init__(self, submit: Callable[[Command], Awaitable[Acknowledgement]]) -> None:
        self._submit = submit
        self._pending: dict[GroupKey, _Pending] = {}
        self._task: asyncio.Task[None] | None = None

    async def confirm(self, key: GroupKey, tenant: str, positions: bytes) -> int:
        """Return the sequence of the event once the log has the positions. Raises the errors of the command."""
        pending = self._pending.setdefault(key, _Pending(tenant, positions))
        pending.positions = later_positions(pending.positions, positions)
        reply = asyncio.get_running_loop().create_future()
        pending.replies.append(reply)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._rounds())
        return await reply

    async def _rounds(self) -> None:
        """Run rounds until nothing is pending."""
        loop = asyncio.get_running_loop()
        while self._pending:
            due = loop.time() + ROUND_S
            some = [(key, self._pending.pop(key)) for key in list(self._pending)[:MOST_GROUPS]]
            await asyncio.gather(*(self._send(key, pending) for key, pending in some))
            await asyncio.sleep(max(due - loop.time(), 0))

    async def _send(self, key: GroupKey, pending: _Pending) -> None:
        stream_id, name = key
        try:
            done = await self._submit(ConfirmGroup(stream_id, name, pending.positions, pending.tenant))
        except BaseException as problem:
            for reply in pending.replies:
                if not reply.done():
                    reply.set_exception(problem)
            if not isinstance(problem, Exception):
                raise
            return
        for reply in pending.replies:
            if not reply.done():
                reply.set_result(done.sequence)
