"""The tool `changes`: the rows that came into an answer and that left it since a token."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from psoup.errors import ResourceExhausted
from psoup_proto.v1 import sync_pb2
from psoup_service.assistants.calls import Bounds, McpCalls
from psoup_service.assistants.copies import Page, intervals_of, next_page
from psoup_service.assistants.facts import CompletenessFacts, Facts, completeness_facts
from psoup_service.assistants.rows import fitting_rows
from psoup_service.assistants.tool import Bounded, OfQuery, Tool, token_bytes, token_text

_ATTEMPTS = 12
_POSITION_BYTES = 32
"""The approximate bytes of a position in the JSON of a reply, and of the work on it."""


class ChangesArguments(OfQuery, Bounded):
    """Arguments of `changes`."""

    token: str | None = Field(
        default=None, description="The token of the reply before; leave it out for the whole answer"
    )


class ChangeFacts(Facts):
    """A change of an answer.

    `token`: for the next call. `came`: the rows that came. `more_rows`: the number of rows that came and are left out;
    call again with the token. `reset`: true if all earlier rows are to be forgotten, for `reset_reason`. `stays`:
    intervals of IDs, each without its end. An earlier row stays only if its ID is in one of them. `removed`: intervals
    of positions, from 0, of an answer without IDs. The earlier rows at these positions leave.
    """

    token: str
    came: list[dict[str, Any]]
    more_rows: int
    complete: bool
    reset: bool | None = None
    reset_reason: str | None = None
    stays: dict[str, list[tuple[int, int]]] | None = None
    removed: list[tuple[int, int]] | None = None
    completeness: CompletenessFacts


async def _changes(calls: McpCalls, given: ChangesArguments) -> ChangeFacts:
    bounds = given.bounds(calls)
    want = sync_pb2.Want(
        **given.named,
        token=token_bytes(given.token, "token") if given.token else b"",
        max_rows=bounds.rows,
        max_bytes=bounds.size,
    )
    for _ in range(_ATTEMPTS):
        page = await next_page(calls, want)
        table = page.table()
        size = table.nbytes + _POSITION_BYTES * (len(page.change.keep) + len(page.change.removed))
        facts = await calls.made(size, lambda page=page, table=table: _facts(page, table, bounds))  # type: ignore[misc]
        if facts is not None:
            return facts
        if page.change.rows <= 1:
            break
        want.max_rows = max(page.change.rows // 2, 1)
    raise ResourceExhausted(
        f"one change takes more than the {bounds.size:,} bytes of a reply; invoke the query, or select fewer columns",
        reason="REPLY_TOO_LARGE",
        limit=bounds.size,
    )


def _facts(page: Page, table: Any, bounds: Bounds) -> ChangeFacts | None:
    """The facts about a page; None if they are too large."""
    change = page.change
    facts = ChangeFacts(
        token=token_text(page.token),
        came=[],
        more_rows=change.rows_left,
        complete=change.complete,
        completeness=completeness_facts(page.completeness()),
    )
    if change.reset:
        facts.reset, facts.reset_reason = True, sync_pb2.Reset.Name(change.reset).removeprefix("RESET_")
    elif page.form is not None:
        if page.form.whole:
            facts.removed = intervals_of(change.removed)
        else:
            facts.stays = page.stays()
    facts.came = fitting_rows(table, bounds.size - facts.size())
    return facts if len(facts.came) == change.rows else None


CHANGES = Tool(
    "changes",
    "Changes since a token",
    "Read which rows came to the answer of a registered query since a token, and which left. Without a token the reply"
    " begins with the whole answer. While complete is false, call again with the new token.",
    ChangesArguments,
    ChangeFacts,
    ("SyncService/Sync",),
    _changes,
)
