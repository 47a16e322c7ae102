"""Random histories: a stream, an engine configuration, and what happens, in order. A history can be run many times.

    CREATE STREAM …; register; push; invoke; maintain; push; heartbeat; alter; unregister; invoke as of …

Data comes from small pools of values, so that constants of queries meet them, and NULLs and duplicates are common. The
rows of a push cost Hypothesis one number.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from psoup.config import EngineConfig, Shape
from psoup.model import TIMESTAMP, Attribute, Schema
from psoup.plan.amounts import AS_USUAL, AUTO, AUTOMATIC, Amount, Keeping, KeepingChange, amount_change
from psoup_testing.histories.expressions import Maker, Scope
from psoup_testing.histories.near_far import near_and_far
from psoup_testing.histories.queries import Query, draw_query
from psoup_testing.histories.values import TYPES, Value, iso_time, values
from psoup_testing.histories.windows import SECOND, WINDOW_KINDS, Window, draw_window
from psoup_testing.oracles.model import Declaration, Row

T = TypeVar("T")


class Picks(Protocol):
    """A source of choices."""

    def pick(self, options: Sequence[T]) -> T:
        """Pick from `options`."""
        ...


BASE = 1_577_836_800 * SECOND
"""2020-01-01 00:00:00: the clock when a history begins."""
SPAN = 600
"""Seconds that a history covers, about."""
NAMES = ("a", "b", "Price", "vol_2", "order", "é", "x y")
MAX_AHEAD = 3_600 * SECOND


@dataclass(frozen=True, slots=True)
class Push:
    """A push of rows."""

    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A promise about time (microseconds)."""

    time: int


@dataclass(frozen=True, slots=True)
class Register:
    """A registration; registrations are numbered from 0. `keeping`: how the query is kept, which changes no answer."""

    query: Query
    keeping: Keeping = AS_USUAL


@dataclass(frozen=True, slots=True)
class Alter:
    """A change of how the registration of this number is kept."""

    number: int
    change: KeepingChange


@dataclass(frozen=True, slots=True)
class Unregister:
    """The end of the registration of this number."""

    number: int


@dataclass(frozen=True, slots=True)
class Invoke:
    """An invocation of the registration of this number."""

    number: int
    as_of: int | None = None
    window: Window | None = None
    accept_truncation: bool = False


@dataclass(frozen=True, slots=True)
class Matches:
    """Which queries does a tuple match? `place` from 0 to 999 picks one of the tuples that are there."""

    place: int


@dataclass(frozen=True, slots=True)
class Maintain:
    """All maintenance that is due."""


@dataclass(frozen=True, slots=True)
class Advance:
    """A move of the clock, on or back, by seconds."""

    seconds: int


Action = Push | Heartbeat | Register | Unregister | Alter | Invoke | Matches | Maintain | Advance


@dataclass(frozen=True, slots=True)
class History:
    """Everything that a run needs."""

    declaration: Declaration
    pools: tuple[tuple[Value, ...], ...]
    config: EngineConfig
    actions: tuple[Action, ...]
    shards: int = 1
    """The number of tasks of the join of a piece."""

    def under(self, config: EngineConfig) -> History:
        """The same history with another configuration."""
        return replace(self, config=config)

    def __repr__(self) -> str:
        lines = [self.declaration.sql(), repr(self.config), f"shards: {self.shards}"]
        for action in self.actions:
            if isinstance(action, Register):
                lines.append(f"Register {action.query.sql()} {action.keeping}")
            elif isinstance(action, Push):
                lines.append(f"Push {len(action.rows)} rows: {action.rows[:3]!r}…")
            elif isinstance(action, Heartbeat):
                lines.append(f"Heartbeat {iso_time(action.time)}")
            else:
                lines.append(repr(action))
        return "\n".join(lines)


EAGER = Shape(
    key_probes=1,
    keys_at_once=1_000,
    key_values=1,
    key_share=1,
    cut_rows=1,
    cut_ratio=1,
    cut_worth=1,
    fold_fan=2,
)
"""Structures for later questions are made as early as possible, and used however little they save."""
TINY = replace(
    EAGER,
    page=2,
    owner_page=4,
    few_members=2,
    most_packs=1,
    tier=2,
    large_run=8,
    merge_ratio=2,
    most_parts=2,
    waiting_runs=2,
    compact_from=1,
    tidy_from=1,
    open_work=8_000,
    cover_at_once=2,
    cover_pairs=4,
)
"""So small that some queries and tuples are many pages, packs, runs and parts."""


def draw_config(make: Maker) -> EngineConfig:
    """Sizes that force every path: chunks of 64, all dense or all sparse, lists or bitmaps, no memory for results."""
    chunk_rows, piece_rows = make.pick((64, 128)), make.pick((4096, 16, 7))
    return EngineConfig(
        chunk_rows=chunk_rows,
        piece_rows=piece_rows,
        block_rows=make.pick((4096, 64)),
        list_limit=make.pick((1024, 0, 4)),
        dense_share=make.pick((64, 1, 1_000_000, 4)),
        sparse_floor=make.pick((8, 0)),
        generous_rows=make.pick((8192, 0)),
        delta_queries=make.pick((1024, 1, 2)),
        results_bytes=make.pick((1 << 30, 1 << 30, 1 << 30, 0, 1500)),
        ahead=MAX_AHEAD,
        shape=EAGER if piece_rows == 4096 else TINY,
    )


def draw_declaration(make: Maker, name: str = "s") -> Declaration:
    """A stream of one to six attributes in either time domain, with any retention."""
    event_time = make.number(0, 2) > 0
    names = list(NAMES[: make.number(1, 6)])
    attributes = [Attribute(name, make.pick(TYPES), make.number(0, 3) > 0) for name in names]
    time_column = None
    if event_time:
        time_column = make.number(0, len(attributes))
        attributes.insert(time_column, Attribute("ts", TIMESTAMP, make.number(0, 1) == 1))
    retention = make.number(0, 3)
    return Declaration(
        name,
        Schema(tuple(attributes)),
        time_column,
        make.pick((0, 5, 60)) if event_time else 0,
        make.pick((90, 300)) if retention == 2 else None,
        make.pick((30, 100)) if retention == 3 else None,
    )


def draw_pools(make: Maker, declaration: Declaration) -> tuple[tuple[Value, ...], ...]:
    """Values for every attribute, NULL among them where it may be: a few of any, or near ones that are far apart."""
    pools, pool = [], tuple[Value, ...]()
    for position, attribute in enumerate(declaration.schema.attributes):
        if position == declaration.time_column:
            pools.append(tuple(BASE + seconds * SECOND for seconds in (0, 30, 100, 250, 400)))
            continue
        if make.number(0, 2) == 2:
            source = random.Random(make.number(0, 1 << 16))
            pool = tuple(near_and_far(attribute.type, source, source.choice((4, 12, 40))))
        else:
            pool = tuple(make.draw(values(attribute.type)) for _ in range(make.number(2, 6)))
        pools.append((*pool, None) if attribute.nullable else pool)
    return tuple(pools)


def make_rows(
    declaration: Declaration, pools: tuple[tuple[Value, ...], ...], count: int, at: int, seed: int
) -> list[Row]:
    """`count` rows around `at` seconds after the base; late, equal and far-off times among them."""
    source = random.Random(seed)
    rows = []
    for _ in range(count):
        row = [source.choice(pool) for pool in pools]
        if declaration.time_column is not None:
            away = source.choice((0, 0, 1, 2, -3, source.randint(-80, 30)))
            micros = BASE + (at + away) * SECOND + source.choice((0, 0, 1, 500_000))
            row[declaration.time_column] = micros + (3 * MAX_AHEAD if source.random() < 0.01 else 0)
        rows.append(tuple(row))
    return rows


def draw_history(draw: Any, events: int = 14, name: str = "s") -> History:
    """A history of about `events` actions, ending with an invocation of every query that stands."""
    make = Maker(draw, Scope(Schema(()), ()), 2)
    declaration = draw_declaration(make, name)
    pools = draw_pools(make, declaration)
    make = Maker(draw, Scope(declaration.schema, pools), 2)
    config = draw_config(make)
    actions: list[Action] = []
    standing: list[int] = []
    registered: list[Query] = []
    at = 0
    for step in range(events):
        choice = make.number(0, 12)
        if choice <= 2 and (step or choice):
            at += make.number(0, 60)
            rows = make_rows(declaration, pools, make.number(0, 90), at, make.number(0, 1 << 16))
            actions += [Advance(make.number(0, 40)), Push(tuple(rows))]
        elif choice <= 5 or not standing:
            query = _another(make, declaration, registered)
            standing.append(len(registered))
            registered.append(query)
            actions.append(Register(query, draw_keeping(make)))
        elif choice == 12:
            actions.append(Alter(make.pick(standing), draw_change(make)))
        elif choice <= 8:
            actions.append(draw_invocation(make, make.pick(standing)))
        elif choice == 9:
            actions.append(Maintain())
        elif choice == 10:
            actions.append(Matches(make.number(0, 999)) if make.number(0, 1) else _promise(make, declaration, at))
        else:
            actions.append(Unregister(standing.pop(make.number(0, len(standing) - 1))))
    actions += [Invoke(number, None, None, True) for number in standing]
    return History(declaration, pools, config, tuple(actions), make.number(1, 3))


def _another(make: Maker, declaration: Declaration, queries: list[Query]) -> Query:
    """A new query; sometimes one that shares the WHERE clause of an earlier one."""
    query = draw_query(make, declaration.name, BASE, SPAN)
    if queries and make.number(0, 4) == 4:
        return replace(query, where=make.pick(queries).where)
    return query


def draw_keeping(make: Picks) -> Keeping:
    """Mostly the usual keeping."""
    return make.pick((AS_USUAL, AS_USUAL, AS_USUAL, Keeping(Amount.NONE), Keeping(active=False), AUTOMATIC))


def draw_change(make: Picks) -> KeepingChange:
    """Another amount, or the end or the begin of activity."""
    amounts = tuple(KeepingChange(amount) for amount in (*Amount, Amount.NONE))
    switches = KeepingChange(active=False), KeepingChange(active=True), KeepingChange(Amount.COMPLETE, True, True)
    return make.pick((*amounts, *switches, amount_change(AUTO), amount_change(AUTO)))


def _promise(make: Maker, declaration: Declaration, at: int) -> Action:
    if declaration.time_column is None:
        return Advance(make.number(-30, 100))
    return Heartbeat(BASE + (at + make.number(-40, 40)) * SECOND)


def draw_invocation(make: Maker, number: int) -> Invoke:
    """Now, as of a time, or with another window."""
    as_of = BASE + make.number(-10, SPAN) * SECOND if make.number(0, 2) == 2 else None
    window = draw_window(make, make.pick(WINDOW_KINDS), BASE, SPAN) if make.number(0, 2) == 2 else None
    return Invoke(number, as_of, window, make.number(0, 1) == 1)
