"""Confirmations of groups: events of the log at a bounded rate. Confirmations of one group that meet become one.

confirm(mailer) confirm(mailer) confirm(pager) ── a round ──> two events, one sync ──> three replies
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from psoup.events.acknowledgements import Acknowledgement
from psoup.events.commands import Command
from psoup.events.groups import ConfirmGroup, FollowerGroup, later_positions

ROUND_S = 0.02
"""The least seconds between the beginnings of two rounds."""

MOST_GROUPS = 16
"""The most groups of a round. So there are at most 800 events a second."""


@dataclass(slots=True)
class _Pending:
    group: FollowerGroup
    positions: bytes
    replies: list[asyncio.Future[int]] = field(default_factory=list)


class Confirmations:
    """Sends confirmations to the log. For the event loop."""

    def __init__(self, submit: Callable[[Command], Awaitable[Acknowledgement]]) -> None:
        self._submit = submit
        self._pending: dict[tuple[int, str, int], _Pending] = {}
        """By the stream, the name and the forming event of a group."""
        self._task: asyncio.Task[None] | None = None

    async def confirm(self, group: FollowerGroup, positions: bytes) -> int:
        """Return the sequence of the event once the log has the positions.

        Raises the errors of the command: NotFound if the group was removed, also if it was formed again since.
        """
        key = group.stream_id, group.name, group.formed
        pending = self._pending.setdefault(key, _Pending(group, positions))
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
            some = [self._pending.pop(key) for key in list(self._pending)[:MOST_GROUPS]]
            await asyncio.gather(*map(self._send, some))
            await asyncio.sleep(max(due - loop.time(), 0))

    async def _send(self, pending: _Pending) -> None:
        group = pending.group
        command = ConfirmGroup(group.stream_id, group.name, group.formed, pending.positions, group.tenant)
        try:
            done = await self._submit(command)
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
