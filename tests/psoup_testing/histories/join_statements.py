"""Random joins as text for PSoup, and as parts of a statement for DuckDB.

    SELECT a.k AS o0, b._id AS o1 FROM s0 a [ROWS 3], s1 AS b WHERE a.k = b.j AND b.d > 0.25 LIMIT 7
           outputs                     sources               conditions

All numbers are multiples of a quarter and small, so no comparison of two kinds of numbers loses anything.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from psoup.model import BIGINT, DOUBLE, TEXT, TIMESTAMP, Attribute, DataType, Kind, Schema
from psoup_testing.histories.windows import NOW, WINDOW_KINDS, Edge, Window, draw_window

T = TypeVar("T")

DECIMAL = DataType(Kind.DECIMAL, 9, 2)
NUMBERS = ("k", "j", "d", "m")
SCHEMA = Schema(
    tuple(
        Attribute(name, kind, True)
        for name, kind in (("k", BIGINT), ("j", BIGINT), ("d", DOUBLE), ("m", DECIMAL), ("t", TEXT))
    )
)
TIMED = Schema((*SCHEMA.attributes, Attribute("at", TIMESTAMP, False)))
ALIASES = "abcdefgh"


class Chance:
    """Draws from a seed; has the methods of `Maker` that windows need."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def pick(self, options: Sequence[T]) -> T:
        """Pick from `options`."""
        return self.random.choice(options)

    def number(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`."""
        return self.random.randint(low, high)

    def likely(self, percent: int) -> bool:
        """True in so many cases of a hundred."""
        return self.random.randrange(100) < percent


@dataclass(frozen=True)
class JoinQuery:
    """A join of streams by their numbers; `limit` None: all rows after `skip`. `keys` are of ORDER BY."""

    streams: tuple[int, ...]
    windows: tuple[Window, ...]
    bracketed: bool
    outputs: tuple[str, ...]
    conditions: tuple[str, ...]
    on: tuple[str, ...]
    distinct: bool = False
    keys: tuple[str, ...] = ()
    limit: int | None = None
    skip: int = 0

    @property
    def aliases(self) -> str:
        """The names of the sources."""
        return ALIASES[: len(self.streams)]

    def sql(self) -> str:
        """The statement for PSoup."""
        items = []
        for place, (stream, window) in enumerate(zip(self.streams, self.windows, strict=True)):
            bracket = f" [{window.sql()}]" if self.bracketed and window.sql() else ""
            items.append(f"s{stream} AS {ALIASES[place]}{bracket}")
        origin = items[0]
        for place, item in enumerate(items[1:], 1):
            conditions = [c for c in self.on if f"{ALIASES[place]}." in c and _of(c) <= set(range(place + 1))]
            origin += f" JOIN {item} ON {' AND '.join(conditions)}" if conditions else f", {item}"
        where = [c for c in self.conditions if c not in self._used()]
        text = f"SELECT {'DISTINCT ' * self.distinct}{self.selected()} FROM {origin}"
        text += f" WHERE {' AND '.join(where)}" if where else ""
        text += self.after_where()
        text += "" if self.limit is None else f" LIMIT {self.limit}"
        text += f" OFFSET {self.skip}" if self.skip else ""
        return text if self.bracketed else f"{text} {self.windows[0].sql()}"

    def _used(self) -> set[str]:
        """The conditions that stand in ON."""
        used = set()
        for place in range(1, len(self.streams)):
            used |= {c for c in self.on if f"{ALIASES[place]}." in c and _of(c) <= set(range(place + 1))}
        return used

    def after_where(self) -> str:
        """ORDER BY."""
        return f" ORDER BY {', '.join(self.keys)}" if self.keys else ""

    def selected(self) -> str:
        """The SELECT list."""
        return ", ".join(f"{output} AS o{number}" for number, output in enumerate(self.outputs))

    def tables(self, ranges: Sequence[tuple[int, int]]) -> str:
        """The sources for DuckDB."""
        return ", ".join(
            f"(SELECT * FROM s{stream} WHERE _pos >= {first} AND _pos < {stop}) AS {alias}"
            for stream, alias, (first, stop) in zip(self.streams, self.aliases, ranges, strict=True)
        )

    def duck_sql(self, ranges: Sequence[tuple[int, int]]) -> str:
        """The statement for DuckDB, over positions [first, stop) of each table."""
        where = f" WHERE {' AND '.join(f'({c})' for c in self.conditions)}" if self.conditions else ""
        places = ", ".join(f"{alias}._pos AS p_{alias}" for alias in self.aliases)
        order = ", ".join(f"p_{alias}" for alias in self.aliases)
        names = ", ".join(f"o{number}" for number in range(len(self.outputs)))
        keys = [f"{key.split()[0]} AS q{n}" for n, key in enumerate(self.keys) if "." in key]
        inner = f"SELECT {', '.join([self.selected(), places, *keys])} FROM {self.tables(ranges)}{where}"
        if self.distinct:
            inner = f"SELECT * FROM ({inner}) QUALIFY row_number() OVER (PARTITION BY {names} ORDER BY {order}) = 1"
        sort = []
        for number, key in enumerate(self.keys):
            word, *ways = key.split()
            ways = ways if "NULLS" in ways else [*ways, "NULLS LAST"]
            sort.append(" ".join([f"q{number}" if "." in word else word, *ways]))
        limit = ("" if self.limit is None else f" LIMIT {self.limit}") + f" OFFSET {self.skip}"
        return f"SELECT {names} FROM ({inner}) ORDER BY {', '.join([*sort, order])}{limit}"


def _of(condition: str) -> set[int]:
    """The places of the sources that a condition reads."""
    return {place for place, alias in enumerate(ALIASES) if f"{alias}." in condition}


def draw_join(make: Chance, streams: int, timed: bool, base: int, span: int, extra: frozenset[int]) -> JoinQuery:
    """A join of some of `streams` streams; `extra`: those with a column x."""
    count = make.pick((1, 2, 2, 2, 3, 3, 4)) if streams > 1 else make.pick((2, 2, 3))
    count = make.number(5, 8) if make.likely(8) else max(count, 2)
    chosen = tuple(make.number(0, streams - 1) for _ in range(count))
    bracketed = make.likely(60)
    kinds = [make.pick((*WINDOW_KINDS, "landmark")) for _ in chosen]
    windows = [draw_window(make, kind, base, span) for kind in kinds]  # type: ignore[arg-type]
    if count > 4:  # DuckDB looks at the product of all
        few = [make.number(1, 3) for _ in chosen]
        windows = [Window(Edge("rows", rows, f"(NOW - {rows} ROWS)"), NOW) for rows in few]
    if not bracketed:
        windows = [windows[0]] * count
    pairs = [_pair(make, place, make.number(0, place - 1), timed) for place in range(1, count)]
    joined = [pair for pair in pairs if make.likely(92)]
    singles = [_single(make, place) for place in range(count) if make.likely(50)]
    rest = [_rest(make, count) for _ in range(make.pick((0, 0, 1)))]
    more = [_pair(make, 1, 0, timed)] if make.likely(25) else []
    outputs = tuple(_output(make, count, chosen, extra) for _ in range(make.number(1, 4)))
    distinct = make.likely(20)
    keys = _keys(make, len(outputs), count, distinct) if make.likely(40) else ()
    crossed = len(joined) < count - 1
    limit = make.number(0, 40) if crossed or make.likely(30) else None
    skip = make.number(1, 5) if make.likely(15) else 0
    conditions = tuple(dict.fromkeys([*joined, *singles, *rest, *more]))
    on = tuple(c for c in conditions if make.likely(40))
    return JoinQuery(chosen, tuple(windows), bracketed, outputs, conditions, on, distinct, keys, limit, skip)


def _pair(make: Chance, place: int, other: int, timed: bool) -> str:
    """A key or a band of two sources."""
    a, b = (ALIASES[other], ALIASES[place]) if make.likely(50) else (ALIASES[place], ALIASES[other])
    form = make.number(0, 11)
    x, y = make.pick(NUMBERS), make.pick(NUMBERS)
    if form < 5:
        return f"{a}.{x} = {b}.{y}"
    if form == 5:
        return f"{a}.t = {b}.t"
    if form == 6:
        return f"{a}.k + {make.number(-1, 1)} = {b}.{y}"
    if form == 7:
        return f"upper({a}.t) = {b}.t"
    if form == 8:
        return f"{a}.k BETWEEN {b}.j - 1 AND {b}.j + 1"
    if form == 9:
        return f"{a}.at <= {b}.at" if timed else f"{a}._time <= {b}._time"
    if form == 10:
        return f"{a}.t {make.pick(('<', '>='))} {b}.t"
    return f"{a}.{x} {make.pick(('<', '<=', '>', '>='))} {b}.{y}"


def _single(make: Chance, place: int) -> str:
    """A condition on one source."""
    alias = ALIASES[place]
    form = make.number(0, 4)
    if form == 0:
        return f"{alias}.t LIKE '%a%'"
    if form == 1:
        return f"{alias}.{make.pick(NUMBERS)} IS NOT NULL"
    if form == 2:
        return f"({alias}.k = {make.number(0, 3)} OR {alias}.d > 0.5)"
    return f"{alias}.{make.pick(NUMBERS)} {make.pick(('<', '>', '<=', '>=', '='))} {make.number(-1, 4)}"


def _rest(make: Chance, count: int) -> str:
    """A condition on several sources that is neither a key nor a band."""
    some = make.random.sample(range(count), 2)
    a, b = (ALIASES[place] for place in some)
    form = make.number(0, 4)
    if form == 0:
        return f"({a}.k = {make.number(0, 3)} OR {b}.j > {make.number(-1, 3)})"
    if form == 1:
        return f"{a}.k <> {b}.k"
    if form == 2:
        return f"{a}.k + {b}.k > {make.number(-1, 4)}"
    if form == 3 and count > 2:
        third = ALIASES[next(place for place in range(count) if place not in some)]
        return f"{a}.k + {b}.k >= {third}.k"
    return f"coalesce({a}.t, {b}.t) > 'A'"


def _output(make: Chance, count: int, chosen: Sequence[int], extra: frozenset[int]) -> str:
    """A column of the answer."""
    place = make.number(0, count - 1)
    alias = ALIASES[place]
    form = make.number(0, 6)
    if form == 0:
        return f"{alias}._time"
    if form == 1:
        return f"{alias}.k + {ALIASES[make.number(0, count - 1)]}.j"
    if form == 2 and chosen[place] in extra:
        return f"{alias}.x"
    return f"{alias}.{make.pick(('k', 'j', 'd', 'm', 't', '_id'))}"


def _keys(make: Chance, outputs: int, count: int, distinct: bool) -> tuple[str, ...]:
    """The keys of ORDER BY: columns of the answer, and others if rows are not told apart."""
    keys = []
    for _ in range(make.number(1, 2)):
        word = f"o{make.number(0, outputs - 1)}"
        if not distinct and make.likely(50):
            word = f"{ALIASES[make.number(0, count - 1)]}.{make.pick(('k', 't', 'd', '_id'))}"
        keys.append(word + make.pick(("", " DESC")) + make.pick(("", "", " NULLS FIRST")))
    return tuple(dict.fromkeys(keys))
