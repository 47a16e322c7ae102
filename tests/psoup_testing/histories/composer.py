"""Random composed statements over one to four streams: outer joins, subselects, set operations, OVER.

`FEATURES` names what may be drawn; a test may ask for some of them alone. All numbers are multiples of a quarter and
small, so no comparison of two kinds of numbers loses anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from psoup_testing.histories.composed_conditions import (
    NUMBERS,
    OPERATORS,
    columns_of,
    key_or_band,
    neither_key_nor_band,
    on_one,
)
from psoup_testing.histories.composed_items import Constants, Derived, Item, Named, Spans, Step, quoted
from psoup_testing.histories.composed_outputs import aggregated, column, grouped_alike, over, sort_keys, with_over
from psoup_testing.histories.composed_parts import (
    Compared,
    Condition,
    Exists,
    Measure,
    Member,
    Output,
    Scalar,
    Select,
    SetOperation,
    Statement,
    With,
)
from psoup_testing.histories.join_statements import Chance
from psoup_testing.histories.windows import WINDOW_KINDS, Window, draw_window

JOINS = frozenset(("outer", "full", "semi", "using", "natural", "asof"))
NESTED = frozenset(("nested",))
SUBSELECTS = frozenset(("exists", "in", "scalar"))
SETS = frozenset(("set",))
DERIVED = frozenset(("derived", "whole", "with", "values"))
OVERS = frozenset(("over", "qualify", "first"))
FEATURES = JOINS | NESTED | SUBSELECTS | SETS | DERIVED | OVERS
"""All that is drawn. `whole`: subselects that are evaluated whole; `first`: DISTINCT ON."""
MOST_STREAMS = 8
"""Streams from which on no more are drawn: a statement has at most 16."""


@dataclass(frozen=True)
class Composed:
    """A statement with the streams that it names, once for each time. `end`: its one window for all."""

    statement: Statement
    named: tuple[Named, ...]
    end: str

    @property
    def streams(self) -> tuple[int, ...]:
        """The number of the stream of each place."""
        return tuple(named.stream for named in self.named)

    @property
    def windows(self) -> tuple[Window, ...]:
        """The window of each place."""
        return tuple(named.window for named in self.named)

    @property
    def aliases(self) -> tuple[str, ...]:
        """The name of each place."""
        return tuple(named.alias for named in self.named)

    def sql(self) -> str:
        """The statement for PSoup."""
        return f"{self.statement.text()} {self.end}".rstrip()

    def duck_sql(self, ranges: Sequence[tuple[int, int]]) -> str:
        """The statement for DuckDB, over positions [first, stop) of the table of each place."""
        spans: Spans = dict(zip(self.named, ranges, strict=True))
        names = ", ".join(self.statement.names)
        return f"SELECT {names} FROM ({self.statement.ranked(spans)}) ORDER BY _pos"


@dataclass
class Composer:
    """Draws a statement over `streams` streams. `window`: of all sources; None: each has its own in brackets.

    `wider`: the streams with a column x.
    """

    make: Chance
    streams: int
    timed: bool
    base: int
    span: int
    features: frozenset[str] = FEATURES
    wider: frozenset[int] = frozenset()
    window: Window | None = None
    _aliases: int = 0
    _named: int = 0
    _items: list[Derived] = field(default_factory=list)

    def draw(self) -> Composed:
        """A statement."""
        if self.make.likely(40):
            self.window = self._window()
        if self._may("with", 15):
            self._items = [self._item(number) for number in range(self.make.pick((1, 1, 2)))]
        body = self._set(2) if self._may("set", 25) else self._select(2)
        while not [*body.streams()]:
            body = self._select(2)
        statement = With(tuple(self._items), body) if self._items else body
        end = "" if self.window is None else self.window.sql()
        return Composed(statement, tuple(statement.streams()), end)

    def _may(self, feature: str, percent: int) -> bool:
        """Whether a feature is drawn now; of few features each is drawn more often."""
        return feature in self.features and self.make.likely(percent if len(self.features) > 5 else 2 * percent)

    @property
    def _full(self) -> bool:
        return self._named >= MOST_STREAMS

    # FROM ----------------------------------------------------------------------------------------------------

    def _alias(self) -> str:
        self._aliases += 1
        return f"a{self._aliases}"

    def _window(self) -> Window:
        make: Any = self.make
        return draw_window(make, make.pick((*WINDOW_KINDS, "landmark")), self.base, self.span)

    def _stream(self) -> Named:
        self._named += 1
        number = self.make.number(0, self.streams - 1)
        columns = [("k", "whole"), ("j", "whole"), ("d", "double"), ("m", "decimal"), ("t", "text")]
        columns += [("at", "time")] * self.timed + [("x", "whole")] * (number in self.wider)
        columns += [("_id", "whole"), ("_time", "time")]
        window = self.window or self._window()
        return Named(number, self._alias(), window, self.window is None, tuple(columns))

    def _item(self, number: int) -> Derived:
        """An item of WITH, with the name under which it is used."""
        statement = self._inner()
        return Derived(statement, "", statement.columns, f"w{number}")

    def _inner(self) -> Select | SetOperation:
        """A statement in FROM: a selection or a join; or one that is evaluated whole."""
        if self._may("whole", 50):
            if self._may("set", 40):
                return self._set(1)
            return self._select(1, steps=self.make.pick((1, 1, 2)))
        return self._select(0, steps=self.make.pick((1, 1, 2)), plain=True)

    def _source(self, depth: int) -> Item:
        make = self.make
        if self._items and make.likely(50):
            return replace(make.pick(self._items), alias=self._alias())
        if depth and self._may("derived", 15) and self._named < MOST_STREAMS - 2:
            statement = self._inner()
            return Derived(statement, self._alias(), statement.columns)
        if depth and self._named and self._may("values", 6):
            rows = ("1, 'a'", "2, NULL", "NULL, 'b'", "1, 'a'", "0, 'B'")
            return Constants(rows[: make.number(1, 5)], self._alias(), (("v0", "whole"), ("v1", "text")))
        return self._stream()

    def _steps(self, depth: int, count: int) -> tuple[Step, ...]:
        """FROM. ON may read the items from the last comma on."""
        steps, seen = [Step("", self._source(depth))], [0]
        for _ in range(count - 1):
            if self._full:
                break
            word, item = self.make.pick(self._words()), self._source(depth)
            before = [item for place in seen for item in steps[place].items]
            if word == ",":
                seen = []
            steps.append(Step(word, item) if word == "," else self._joined(word, before, item, len(steps) == 1))
            seen.append(len(steps) - 1)
        return tuple(steps)

    def _words(self) -> list[str]:
        words = ["JOIN", "JOIN", ","]
        words += ["LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "LEFT OUTER JOIN"] * ("outer" in self.features)
        words += ["FULL JOIN"] * ("full" in self.features)
        words += ["SEMI JOIN", "ANTI JOIN"] * ("semi" in self.features)
        return words + ["ASOF JOIN", "ASOF LEFT JOIN"] * ("asof" in self.features)

    def _joined(self, word: str, before: Sequence[Item], item: Item, first: bool) -> Step:
        """An item that is joined with those before it."""
        make, shared = self.make, _shared(before, item)
        if first and shared and "ASOF" not in word:
            if self._may("natural", 6):
                return Step(f"NATURAL {word}", item, (), tuple(shared))
            if self._may("using", 25):
                some = make.random.sample(shared, make.pick((1, 1, min(2, len(shared)))))
                return Step(word, item, (), tuple(some))
        other = make.pick(before)
        if "ASOF" in word:
            return self._nearest(word, other, item)
        more = tuple[Step, ...]()
        if self._may("nested", 8) and "JOIN" in word and not self._full:
            inner = self._source(0)
            more = (
                self._joined(
                    make.pick([word for word in self._words() if word not in (",", "FULL JOIN")]), [item], inner, False
                ),
            )
        on = [key_or_band(make, other, item)] if make.likely(93) or word == "FULL JOIN" else []
        on += [key_or_band(make, make.pick(before), item)] * make.likely(25)
        on += [on_one(make, item)] * make.likely(30) + [on_one(make, make.pick(before))] * make.likely(25)
        on += [neither_key_nor_band(make, make.pick(before), item)] * make.likely(15)
        return Step(word, item, tuple(dict.fromkeys(on)) or (on_one(make, item),), more=more)

    def _nearest(self, word: str, other: Item, item: Item) -> Step:
        """ASOF: equalities and one band."""
        make = self.make
        kinds = [kind for kind in ("time", "whole") if columns_of(other, kind) and columns_of(item, kind)]
        if not kinds:
            return Step("JOIN", item, (key_or_band(make, other, item),))
        kind, operator = make.pick(kinds), make.pick(OPERATORS)
        left, right = make.pick(columns_of(other, kind)), make.pick(columns_of(item, kind))
        keys, wholes = list[str](), (columns_of(other, "whole"), columns_of(item, "whole"))
        if all(wholes) and make.likely(60):
            keys = [f"{make.pick(wholes[0])} = {make.pick(wholes[1])}"]
        return Step(word, item, (*keys, f"{left} {operator} {right}"), (), f"{right}{' DESC' * ('>' in operator)}")

    # WHERE ---------------------------------------------------------------------------------------------------

    def _where(self, steps: Sequence[Step], depth: int, plain: bool = False) -> tuple[Condition, ...]:
        make = self.make
        items = [item for step in steps for item in step.items]
        conditions = list[Condition]()
        for item in (step.item for step in steps if step.word == ","):
            conditions.append(key_or_band(make, make.pick([other for other in items if other is not item]), item))
        conditions += [on_one(make, make.pick(items)) for _ in range(make.pick((0, 0, 1, 1, 2)))]
        if len(items) > 1 and make.likely(20):
            conditions.append(neither_key_nor_band(make, *make.random.sample(items, 2)))
        for feature, percent in (("exists", 25), ("in", 25), ("scalar", 12)):
            if not plain and depth > 0 and self._may(feature, percent) and not self._full:
                conditions.append(self._subselect(feature, items, depth))
        return tuple(conditions)

    def _subselect(self, feature: str, items: Sequence[Item], depth: int) -> Condition:
        make = self.make
        if feature == "exists":
            return Exists(self._inside(depth, items, make.likely(93), "whole", "1"), make.likely(50))
        item = make.pick(items)
        value = make.pick(columns_of(item, *NUMBERS) or columns_of(item, "text", "time"))
        if feature == "in":
            kind = dict(item.columns)[value.partition(".")[2]]
            if self._may("set", 8) and self._may("whole", 50):
                return Member(value, self._set(1, (kind,)), make.likely(50))
            if self._may("whole", 15):
                groups = replace(self._inside(depth, items, False, kind), groups=make.number(0, 1))
                measure = Measure(f"{make.pick(('min', 'max'))}({groups.outputs[0]})")
                grouped = replace(groups, outputs=(measure,), groups=0) if not groups.groups else groups
                return Member(value, grouped, make.likely(50))
            return Member(value, self._inside(depth, items, make.likely(35), kind), make.likely(50))
        if dict(item.columns)[value.partition(".")[2]] not in NUMBERS:
            value = "2"
        return Compared(value, make.pick((*OPERATORS, "=")), self._scalar(items, ("avg({})",)).query)

    def _scalar(self, outer: Sequence[Item], more: Sequence[str] = ()) -> Scalar:
        """A subselect of one whole number, or of `more`. `outer`: the items around it, which it may read."""
        query = self._inside(0, (), False, "whole")
        if "correlated" in self.features and self.make.likely(80):
            query = replace(query, where=(*query.where, *self._equalities(outer, query)))
        call = self.make.pick(("max({})", "min({})", "count({})", "count(*)", *more)).format(query.outputs[0])
        return Scalar(replace(query, outputs=(Measure(call),), groups=0))

    def _equalities(self, outer: Sequence[Item], query: Select) -> Iterator[str]:
        """Equalities of columns in a subselect with columns around it: one or two."""
        make, items = self.make, [item for step in query.steps for item in step.items]
        for _ in range(make.number(1, 2)):
            kinds = make.pick((NUMBERS, NUMBERS, ("text",)))
            sides = [columns_of(make.pick(some), *kinds) for some in (items, outer)]
            if all(sides):
                yield " = ".join(make.random.sample([make.pick(side) for side in sides], 2))

    def _inside(self, depth: int, outer: Sequence[Item], correlated: bool, kind: str, output: str = "") -> Select:
        """A subselect of WHERE over one stream or two. `outer`: the items around it."""
        make = self.make
        steps = self._steps(0, make.pick((1, 1, 1, 2)))
        items = [item for step in steps for item in step.items]
        conditions = list(self._where(steps, depth - 1))
        if correlated:
            for _ in range(make.pick((1, 1, 2))):
                conditions.append(key_or_band(make, make.pick(outer), make.pick(items)))
            if make.likely(20):
                conditions.append(neither_key_nor_band(make, make.pick(outer), make.pick(items)))
        return Select(steps, (output or column(make, items, kind),), (kind,), tuple(conditions))

    # SELECT --------------------------------------------------------------------------------------------------

    def _select(
        self, depth: int, *, steps: int = 0, plain: bool = False, kinds: tuple[str, ...] = (), prefix: str = "o"
    ) -> Select:
        """A SELECT. `plain`: a selection or a join, and nothing above it. `kinds`: of its columns."""
        make, fixed = self.make, bool(kinds)
        given = self._steps(depth, steps or make.pick((1, 2, 2, 2, 3, 3, 4)))
        items = [item for step in given for item in step.items]
        where = self._where(given, depth, plain)
        if not fixed:
            all_kinds = [kind for item in items for _, kind in item.columns]
            kinds = tuple(make.pick(all_kinds) for _ in range(make.number(1, 4)))
        outputs: tuple[Output, ...] = tuple(column(make, items, kind) for kind in kinds)
        select = Select(given, outputs, kinds, where, prefix=prefix)
        if plain:
            return select
        if not fixed and depth > 0 and self._may("scalar", 5) and not self._full:
            select = replace(select, outputs=(*outputs, self._scalar(items)), kinds=(*kinds, "whole"))
        elif not steps and make.likely(15):
            shown = zip(outputs, kinds, strict=True)
            select = replace(select, outputs=tuple(self._mixed(items, given, output, kind) for output, kind in shown))
        return self._above(select, items, fixed)

    def _mixed(self, items: Sequence[Item], steps: Sequence[Step], output: Output, kind: str) -> Output:
        """A column of USING without its source, or an expression over several sources."""
        make = self.make
        shared = [name for step in steps for name in step.using if dict(step.item.columns)[name] == kind]
        if shared and len(steps) == 2 and make.likely(60):
            return quoted(make.pick(shared))
        if kind == "whole" and len(items) > 1:
            return f"coalesce({column(make, items, kind)}, {column(make, items, kind)})"
        return output

    def _above(self, select: Select, items: Sequence[Item], fixed: bool) -> Select:
        """The select with groups, window functions, DISTINCT, ORDER BY and LIMIT."""
        make = self.make
        if make.likely(30):
            select = (grouped_alike if fixed else aggregated)(make, select, items)
        elif not fixed and self._may("over", 12):
            select = with_over(make, select, items)
        elif self._may("qualify", 6):
            function = over(make, items, ("row_number()", "rank()"))
            select = replace(select, qualify=(function, f"<= {make.number(1, 3)}"))
        elif self._may("first", 6):
            key = column(make, items, make.pick([kind for item in items for _, kind in item.columns]))
            select = replace(select, distinct_on=(key,), keys=sort_keys(make, select, items))
        elif make.likely(20):
            select = replace(select, distinct=True)
        if make.likely(30) and not select.distinct_on:
            select = replace(select, keys=sort_keys(make, select, items))
        limit = make.number(0, 30) if make.likely(20) else None
        return replace(select, limit=limit, skip=make.number(1, 4) if make.likely(8) else 0)

    # Set operations ------------------------------------------------------------------------------------------

    def _set(self, depth: int, kinds: tuple[str, ...] = ()) -> SetOperation:
        """A set operation of two to four SELECTs."""
        make = self.make
        kinds = kinds or tuple(make.pick((*NUMBERS, "text", "time")) for _ in range(make.number(1, 3)))
        whole = self._operator(self._operand(kinds, depth, "o"), self._operand(kinds, depth, "x"))
        for _ in range(make.pick((0, 0, 1, 2))):
            other: Select | SetOperation = self._operand(kinds, depth, make.pick(("o", "x")))
            if make.likely(30) and not self._full:
                other = self._operator(other, self._operand(kinds, depth, "x"))
            whole = self._operator(whole, other)
            if self._full:
                break
        keys = tuple(f"{make.pick(whole.names)}{make.pick(('', ' DESC'))}" for _ in range(make.likely(25)))
        return replace(whole, keys=keys, limit=make.number(0, 30) if make.likely(20) else None)

    def _operator(self, left: Select | SetOperation, right: Select | SetOperation) -> SetOperation:
        make = self.make
        operator = make.pick(("UNION", "INTERSECT", "EXCEPT"))
        return SetOperation(left, right, operator, make.likely(45), bracketed=make.likely(15))

    def _operand(self, kinds: tuple[str, ...], depth: int, prefix: str) -> Select:
        """A SELECT with columns of these kinds, or of kinds that are unified with them."""
        make = self.make
        other = {"whole": ("whole", "whole", "double", "decimal"), "decimal": ("decimal", "whole")}
        alike = tuple(make.pick(other.get(kind, (kind,))) for kind in kinds)
        select = self._select(
            depth - 1, steps=make.pick((1, 1, 1, 2)), plain=make.likely(70), kinds=alike, prefix=prefix
        )
        return select if make.likely(20) or select.distinct_on else replace(select, keys=(), limit=None, skip=0)


def _shared(before: Sequence[Item], item: Item) -> list[str]:
    """The names of columns that two items share, if all that they share have one type each."""
    if len(before) != 1:
        return []
    names = [name for name, kind in before[0].columns if (name, kind) in item.columns and name[0] != "_"]
    both: set[str] = {name for name, _ in before[0].columns} & {name for name, _ in item.columns}
    return names if both <= {*names, "_id", "_time"} else []
