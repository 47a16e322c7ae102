"""Statements that the session runs without calls: they have no parameters, and at most a few rows of texts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from psoup_service.pg.contract import Argument, Column, Description, Sink

TEXT_OID = 25


def text_columns(*names: str) -> tuple[Column, ...]:
    """Columns of texts."""
    return tuple(Column(name, TEXT_OID) for name in names)


@dataclass(frozen=True, slots=True)
class Utility:
    """A statement of the session. `effect`: runs it, and returns the tag of the command."""

    effect: Callable[[Sink], Awaitable[str]]
    columns: tuple[Column, ...] | None = None

    async def describe(self) -> Description:
        """See `contract.Statement`."""
        return Description((), self.columns)

    async def run(self, arguments: Sequence[Argument], sink: Sink) -> str:
        """See `contract.Statement`."""
        return await self.effect(sink)


def at_once(tag: str, effect: Callable[[], object] = lambda: None) -> Utility:
    """A statement without rows, whose effect is immediate."""

    async def run(sink: Sink) -> str:
        effect()
        return tag

    return Utility(run)


def waiting(effect: Callable[[], Awaitable[str]]) -> Utility:
    """A statement without rows. `effect`: runs it, and returns the tag of the command."""

    async def run(sink: Sink) -> str:
        return await effect()

    return Utility(run)


def table(tag: str, names: Sequence[str], rows: Callable[[], Sequence[Sequence[str | None]]]) -> Utility:
    """A statement with rows of texts, which are made when it runs."""
    columns = text_columns(*names)

    async def run(sink: Sink) -> str:
        made = rows()
        await sink.begin(columns)
        values = [pa.array([row[place] for row in made], pa.string()) for place in range(len(names))]
        await sink.batch(pa.RecordBatch.from_arrays(values, list(names)))
        return tag

    return Utility(run, columns)
