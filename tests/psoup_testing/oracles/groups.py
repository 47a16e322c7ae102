"""Random aggregates and groups over one stream, and their answers: by plain Python, exact, which DuckDB confirms.

    tuples of the window ─ WHERE, keys, arguments, FILTER in DuckDB ─> rows ─ groups, aggregates in Python ─> the answer
                                                                        └─ DuckDB's own aggregates: the same, but for …

The differences from DuckDB that are meant: its sums of DOUBLE are rounded at every step, and so are its means and
variances; it refuses variances that are infinite, and gives any of the equal rows for ARG_MIN and ARG_MAX.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from psoup.expressions.tree import AttributeRef
from psoup.model import BIGINT, BOOLEAN, DATE, DOUBLE, TIMESTAMP, DataType, Kind, wide
from psoup.plan.nodes import Measure
from psoup_testing.histories.expressions import Expression, Maker, column
from psoup_testing.histories.histories import History, Register
from psoup_testing.histories.queries import Query
from psoup_testing.oracles.aggregates import close, expected
from psoup_testing.oracles.duckdb_answers import Oracle, Row, leaving
from psoup_testing.oracles.duel import Duel
from psoup_testing.oracles.hops import HOPS, HopKey

_ANY = ("count", "min", "max", "first", "last", "any_value", "count_distinct", "quantile_disc")
_NUMBERS = ("sum", "avg", "sum_distinct", "stddev_samp", "var_pop", "median", "quantile_cont")
_SHARES = (0.0, 0.25, 0.5, 0.9, 1.0)


@dataclass(frozen=True, slots=True)
class Aggregated:
    """An aggregate of a SELECT list. `name`: the function, with `_distinct` behind it for DISTINCT values."""

    name: str
    args: tuple[Expression, ...] = ()
    condition: Expression | None = None
    share: float | None = None

    def sql(self, *, duck: bool = False) -> str:
        """As PSoup reads it, or DuckDB; there values that cannot be computed are NULL, and rows are in their order."""
        args = [f"TRY({arg.duck_sql()})" if duck else arg.psoup_sql() for arg in self.args]
        if duck and self.type == DOUBLE:  # its quantiles of DECIMAL are cut to the digits of the type
            args = [f"CAST({arg} AS DOUBLE)" for arg in args]
        if self.share is not None and self.name != "median":
            args.append(repr(self.share))
        function = self.name.removesuffix("_distinct")
        ordered = " ORDER BY _pos" if duck and function in ("first", "last", "any_value") else ""
        text = f"{function}({'DISTINCT ' if self.distinct else ''}{', '.join(args) or '*'}{ordered})"
        if self.condition is None:
            return text
        test = self.condition.duck_sql() if duck else self.condition.psoup_sql()
        return f"{text} FILTER (WHERE {f'TRY({test})' if duck else test})"

    @property
    def distinct(self) -> bool:
        """Whether equal values count once."""
        return self.name.endswith("_distinct")

    @property
    def measure(self) -> Measure:
        """The same as a node of a plan has it, but for its condition."""
        function = self.name.removesuffix("_distinct")
        function = "quantile_cont" if function == "median" else function
        refs = tuple(AttributeRef(arg.type, place, f"a{place}") for place, arg in enumerate(self.args))
        return Measure(function, refs, self.type, self.distinct, None, self.share)

    @property
    def type(self) -> DataType:
        """The type of its value."""
        name = self.name.removesuffix("_distinct")
        if name == "count":
            return BIGINT
        kind = self.args[0].type
        if name == "sum":
            return kind if kind == DOUBLE else wide(kind.scale)
        if name in ("avg", "median", "quantile_cont", "stddev_samp", "var_pop"):
            return TIMESTAMP if kind in (TIMESTAMP, DATE) else DOUBLE
        return kind


@dataclass(frozen=True, slots=True)
class Grouped(Query):
    """A query with GROUP BY `keys`, if there are any, and aggregates; `least`: HAVING so many rows; `by`: ORDER BY.

    `hop`: if there is one, the first key is a time, and groups are by its buckets.
    """

    keys: tuple[Expression, ...] = ()
    aggregates: tuple[Aggregated, ...] = ()
    least: int | None = None
    by: tuple[tuple[int, bool], ...] = ()
    hop: HopKey | None = None

    def sql(self) -> str:
        """The text to register."""
        keys = [key.psoup_sql() for key in self.keys]
        if self.hop is not None:
            keys[0] = self.hop.sql(keys[0])
        shown = [f"{key} AS k{i}" for i, key in enumerate(keys)]
        shown += [f"{aggregate.sql()} AS m{i}" for i, aggregate in enumerate(self.aggregates)]
        text = f"SELECT {', '.join(shown)} FROM {self.stream}"
        if self.where is not None:
            text += f" WHERE {self.where.psoup_sql()}"
        if self.keys:
            text += f" GROUP BY {', '.join(f'k{i}' for i in range(len(self.keys)))}"
        if self.least is not None:
            text += f" HAVING count(*) >= {self.least}"
        if self.by:
            by = [f"{place + 1} DESC" if down else f"{place + 1}" for place, down in self.by]
            text += f" ORDER BY {', '.join(by)}"
        text += "" if self.limit is None else f" LIMIT {self.limit}"
        text += f" OFFSET {self.skip}" if self.skip else ""
        window = self.window.sql()
        return f"{text} {window}" if window else text

    def folded(self) -> bool:
        """Whether a part of an expression is constant, so that its failure is found when the query is registered."""
        parts = [*self.keys, *[arg for aggregate in self.aggregates for arg in aggregate.args]]
        parts += [aggregate.condition for aggregate in self.aggregates if aggregate.condition is not None]
        leaves = [] if self.where is None else [leaf.condition for leaf in self.where.leaves()]
        return any(part.folded() for part in [*parts, *leaves])


def draw_grouped(make: Maker, query: Query) -> Grouped:
    """Groups and aggregates of the tuples that another query selects."""
    columns = make.scope.columns()
    keys = tuple(_expression(make, make.pick(columns)) for _ in range(make.pick((0, 1, 1, 2, 3))))
    keys = tuple(key for key in keys if not key.constant)
    hop = make.pick(HOPS) if make.number(0, 3) == 3 else None
    if hop is not None:
        times = [column("_time", TIMESTAMP), *(each for each in columns if each.type == TIMESTAMP)]
        time = _expression(make, make.pick(times))
        keys = (times[0] if time.constant else time, *keys)
    aggregates = tuple(_aggregate(make, columns) for _ in range(make.number(1, 4)))
    places = len(keys) + len(aggregates)
    exact = [k for k in range(places) if k < len(keys) or aggregates[k - len(keys)].type != DOUBLE]
    by = tuple((make.pick(exact), make.number(0, 1) == 1) for _ in range(make.number(0, 2) if exact else 0))
    return Grouped(
        query.stream,
        query.columns,
        None,
        query.where,
        limit=make.number(0, 9) if make.number(0, 4) == 4 else None,
        skip=make.pick((0, 0, 0, 1)),
        window=query.window,
        keys=keys,
        aggregates=aggregates,
        least=make.number(1, 4) if make.number(0, 3) == 3 else None,
        by=tuple(dict(by).items()),
        hop=hop,
    )


def _expression(make: Maker, column: Expression) -> Expression:
    return column if make.number(0, 3) else make.of(column.type)


def _aggregate(make: Maker, columns: Sequence[Expression]) -> Aggregated:
    """A random function over a column or an expression, sometimes with a FILTER."""
    condition = make.of(BOOLEAN) if make.number(0, 3) == 3 else None
    choice = make.number(0, 9)
    if choice == 0:
        return Aggregated("count", (), condition)
    arg = _expression(make, make.pick(columns))
    numbers = [c for c in columns if c.type.kind in (Kind.BIGINT, Kind.DOUBLE, Kind.DECIMAL)]
    if choice == 1:
        return Aggregated(make.pick(("arg_min", "arg_max")), (arg, _expression(make, make.pick(columns))), condition)
    if choice <= 5 or not numbers:
        name = make.pick(_ANY)
        return Aggregated(name, (arg,), condition, make.pick(_SHARES) if name == "quantile_disc" else None)
    name, arg = make.pick(_NUMBERS), _expression(make, make.pick(numbers))
    share = 0.5 if name == "median" else make.pick(_SHARES) if name == "quantile_cont" else None
    return Aggregated(name, (arg,), condition, share)


class GroupedOracle(Oracle):
    """Answers of queries with aggregates; others as ever."""

    def answer(self, query: Query, first: int, stop: int) -> list[Row]:
        """The rows of `query` over the tuples at positions first <= p < stop."""
        if not isinstance(query, Grouped):
            return super().answer(query, first, stop)
        groups: dict[Any, list[list[Any]]] = {} if query.keys else {(): []}
        shown: dict[Any, tuple[Any, ...]] = {(): ()}
        for row in self._rows(query, first, stop):
            for begin in row[:1] if query.hop is None else query.hop.buckets(row[0]):
                keys = tuple(_key_shown(value) for value in (begin, *row[1:])[: len(query.keys)])
                name = tuple(map(_place, keys))
                shown.setdefault(name, keys)
                groups.setdefault(name, []).append(list(row[len(query.keys) :]))
        rows = []
        for name in sorted(groups):
            members = groups[name]
            if query.least is None or len(members) >= query.least:
                rows.append((*shown[name], *self._aggregates(query, members)))
        self._confirm(query, rows, first, stop)
        for place, down in reversed(query.by):
            rows = _stable(rows, place, down)
        stop_at = None if query.limit is None else query.skip + query.limit
        return rows[query.skip : stop_at]

    def _rows(self, query: Grouped, first: int, stop: int) -> list[Any]:
        """Keys, arguments and FILTERs of the tuples, in stream order."""
        parts: list[Expression] = list(query.keys)
        for aggregate in query.aggregates:
            parts += [*aggregate.args, *([] if aggregate.condition is None else [aggregate.condition])]
        shown = ", ".join(leaving(f"TRY({part.duck_sql()})", part.type) for part in parts) or "1"
        return self.connection.execute(
            f"SELECT {shown} FROM {self._tuples(query, first, stop)} ORDER BY _pos"
        ).fetchall()

    def _tuples(self, query: Grouped, first: int, stop: int) -> str:
        where = f" AND {query.where.duck_sql()}" if query.where is not None else ""
        return f"(SELECT * FROM tuples WHERE _pos >= {first} AND _pos < {stop}{where})"

    def _in_buckets(self, query: Grouped, first: int, stop: int) -> str:
        """The tuples, each joined with its buckets if there is a HOP."""
        tuples = self._tuples(query, first, stop)
        if query.hop is None:
            return tuples
        buckets = query.hop.duck_sql(f"epoch_us(TRY({query.keys[0].duck_sql()}))")
        return f"(SELECT *, unnest({buckets}) AS _bucket FROM {tuples})"

    def _aggregates(self, query: Grouped, members: list[list[Any]]) -> list[Any]:
        """The values of the aggregates over the rows of a group."""
        found, at = [], 0
        for aggregate in query.aggregates:
            end = at + len(aggregate.args)
            rows = [row for row in members if aggregate.condition is None or row[end]]
            values = [
                tuple(_engine(v, arg.type) for v, arg in zip(row[at:end], aggregate.args, strict=True)) for row in rows
            ]
            found.append(_plain(expected(aggregate.measure, values), aggregate.type))
            at = end + (aggregate.condition is not None)
        return found

    def _confirm(self, query: Grouped, rows: list[Row], first: int, stop: int) -> None:
        """DuckDB's aggregates are the same, where they mean the same."""
        keys_of_rows = [f"TRY({key.duck_sql()})" for key in query.keys[query.hop is not None :]]
        for place, aggregate in enumerate(query.aggregates, len(query.keys)):
            keys = ", ".join(["_bucket"] * bool(query.hop) + keys_of_rows)
            values = [row[place] for row in rows]
            if aggregate.name.startswith("arg_") or any(map(_is_odd, values)):
                continue
            tuples = self._in_buckets(query, first, stop)
            sql = f"SELECT {leaving(aggregate.sql(duck=True), aggregate.type)}, count(*) FROM {tuples}"
            having = f" HAVING count(*) >= {query.least}" if query.least is not None else ""
            try:
                theirs = self.connection.execute(sql + (f" GROUP BY {keys}" if keys else "") + having).fetchall()
            except Exception as problem:  # a variance out of its range
                assert "OutOfRange" in type(problem).__name__ or "Conversion" in type(problem).__name__, (sql, problem)
                continue
            mine, other = sorted(map(_rough, values)), sorted(_rough(row[0]) for row in theirs)
            same = len(mine) == len(other) and all(map(_near, mine, other))
            assert same, f"plain Python: {mine}\nDuckDB: {other}\n{sql}"


def _stable(rows: list[Row], place: int, down: bool) -> list[Row]:
    """The rows by a column, equal ones in their order, NULLs last."""

    def compare(first: Row, two: Row) -> int:
        if first[place] is None or two[place] is None:
            return (first[place] is None) - (two[place] is None)
        left, right = _place(first[place]), _place(two[place])
        order = (left > right) - (left < right)
        return -order if down else order

    return sorted(rows, key=functools.cmp_to_key(compare))


def _is_odd(value: Any) -> bool:
    """Whether a value is large, or not a number, so that DuckDB rounds it away, or refuses it."""
    return isinstance(value, float) and not abs(value) < 1e15


def _rough(value: Any) -> Any:
    """A value by which answers in any order can be compared."""
    if value is None:
        return (1, 0.0)
    if isinstance(value, float | int | Decimal):
        return (0, float(value) if not isinstance(value, int) or isinstance(value, bool) else value)
    return (0, value)


def _near(first: Any, two: Any) -> bool:
    if isinstance(first[1], str) or isinstance(two[1], str) or first[0] or two[0]:
        return bool(first == two)
    return math.isclose(first[1], two[1], rel_tol=1e-6, abs_tol=1e-3)


def _key_shown(value: Any) -> Any:
    return value + 0.0 if isinstance(value, float) else value


def _place(value: Any) -> tuple[Any, ...]:
    """The sort key of a value: NULL last, NaN before it, texts by bytes."""
    if value is None:
        return (2, 0)
    if isinstance(value, float) and math.isnan(value):
        return (1, 0)
    return (0, value.encode() if isinstance(value, str) else value)


def _engine(value: Any, data_type: DataType) -> Any:
    """A value as the engine has it: DECIMAL is scaled."""
    return int(value.scaleb(data_type.scale)) if isinstance(value, Decimal) else value


def _plain(value: Any, data_type: DataType) -> Any:
    """A value as clients have it."""
    if value is None or data_type.kind not in (Kind.DECIMAL, Kind.WIDE):
        return bool(value) if data_type == BOOLEAN and value is not None else value
    digits = str(abs(value)).rjust(data_type.scale + 1, "0")
    return Decimal((value < 0, tuple(map(int, digits)), -data_type.scale))


class GroupedDuel(Duel):
    """A duel whose queries may have aggregates; also beside another kind of duel, as a base class before it."""

    Asked = GroupedOracle

    def difference(self, query: Query, expected: Sequence[Row], actual: Sequence[Row]) -> str | None:
        """The excess or missing rows of an answer. Means and variances may differ in their last bits."""
        if not isinstance(query, Grouped):
            return super().difference(query, expected, actual)
        for number, (wanted, row) in enumerate(zip(expected, actual, strict=False)):
            for place, (expected_value, two) in enumerate(zip(wanted, row, strict=True)):
                measure = None if place < len(query.keys) else query.aggregates[place - len(query.keys)].measure
                if type(expected_value) is not type(two) or not _same(measure, expected_value, two):
                    return f"row {number}, column {place}: expected {expected_value!r}, found {two!r}"
        return None if len(expected) == len(actual) else f"expected {len(expected)} rows, found {len(actual)}"


def _same(measure: Measure | None, first: Any, two: Any) -> bool:
    if measure is None:
        return _place(first) == _place(two) and repr(first) == repr(two)
    return close(measure, two, first)


def with_groups(make: Maker, history: History) -> History:
    """A history whose queries aggregate what they select, but for some."""
    actions = [
        replace(action, query=draw_grouped(make, action.query))
        if isinstance(action, Register) and make.number(0, 7)
        else action
        for action in history.actions
    ]
    return replace(history, actions=tuple(actions))
