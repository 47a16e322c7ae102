"""The tool `changes`: the rows that came to an answer, and those that left it, since a token."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from pydantic import Field

from psoup.errors import ResourceExhausted
from psoup_proto.v1 import sync_pb2
from psoup_service.assistants.calls import Bounds, McpCalls
from psoup_service.assistants.copies import Page, next_page
from psoup_service.assistants.facts import CompletenessFacts, Facts, completeness_facts
from psoup_service.assistants.rows import fitting_rows
from psoup_service.assistants.tool import Bounded, OfQuery, Tool, token_bytes, token_text

_ATTEMPTS = 12
_POSITION_BYTES = 32
"""The approximate bytes of a position in the JSON of a reply, and of the work on it."""


class ChangesArguments(OfQuery, Bounded):
    """Arguments of `changes`."""

    token: str | None = Field(default=None, description="The token of the reply before; none: the whole answer")


class ChangeFacts(Facts):
    """A change of an answer.

    `token`: for the next call. `more_rows`: rows that came and are left out; call again with the token. `reset`: the
    reason to forget all earlier rows. `stays`: earlier rows stay only if their _id is in one of these intervals, the
    end not included. `removed`: or the positions of the earlier rows that leave, from 0.
    """

    token: str
    came: list[dict[str, Any]]
    more_rows: int
    complete: bool
    reset: str | None = None
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
        facts.reset = sync_pb2.Reset.Name(change.reset).removeprefix("RESET_")
    elif page.form is not None:
        if page.form.whole:
            facts.removed = _intervals(change.removed)
        else:
            facts.stays = _stays(change, table.schema.names[: max(page.form.id_columns, 1)])
    facts.came = fitting_rows(table, bounds.size - facts.size())
    return facts if len(facts.came) == change.rows else None


def _stays(change: sync_pb2.Change, names: list[str]) -> dict[str, list[tuple[int, int]]]:
    """The intervals of the IDs that stay, by their column. A join has one interval for each column."""
    intervals = _intervals(change.keep)
    if len(names) == 1:
        return {names[0]: intervals}
    return {name: [interval] for name, interval in zip(names, intervals, strict=False)}


def _intervals(differences: Any) -> list[tuple[int, int]]:
    ends = list(accumulate(differences))
    return list(zip(ends[::2], ends[1::2], strict=True))


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
