"""Random aggregates and groups over random joins, as text for PSoup and for DuckDB.

    SELECT a.k AS g0, sum(b.m) FILTER (WHERE a.j > 1) AS m0 FROM s0 a [ROWS 3], s1 b WHERE … GROUP BY g0 ORDER BY m0

FIRST and LAST go by the order of the rows of a join: by the tuples of the first source, then of the second, …
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from psoup_testing.histories.join_statements import ALIASES, Chance, JoinQuery

_FUNCTIONS = ("count", "count_distinct", "sum", "min", "max", "first", "last")


@dataclass(frozen=True)
class Measured:
    """An aggregate of an expression, "" for COUNT(*), of the rows that satisfy a condition, "" for all."""

    function: str
    argument: str
    condition: str

    def sql(self, order: str = "") -> str:
        """As PSoup reads it; for DuckDB with the `order` of the rows, and sums of one type."""
        function, distinct = self.function.removesuffix("_distinct"), "DISTINCT " * self.function.endswith("_distinct")
        ordered = f" ORDER BY {order}" if order and function in ("first", "last") else ""
        text = f"{function}({distinct}{self.argument or '*'}{ordered})"
        text += f" FILTER (WHERE {self.condition})" if self.condition else ""
        return f"CAST({text} AS DECIMAL(38,{2 * ('.m' in text)}))" if order and function == "sum" else text


@dataclass(frozen=True)
class GroupedJoin(JoinQuery):
    """A join whose rows are aggregated by `groups`; `least`: HAVING so many rows; `by`: ORDER BY the first measure."""

    groups: tuple[str, ...] = ()
    measures: tuple[Measured, ...] = ()
    least: int = 0
    by: str = ""

    def after_where(self) -> str:
        """GROUP BY, HAVING, ORDER BY."""
        names = [f"g{place}" for place in range(len(self.groups))]
        text = f" GROUP BY {', '.join(names)}" if names else ""
        text += f" HAVING count(*) >= {self.least}" if self.least else ""
        return text + (f" ORDER BY m0 {self.by}" if self.by else "")

    def selected(self, order: str = "") -> str:
        """The SELECT list; for DuckDB with the `order` of the rows."""
        keys = [f"{key} AS g{place}" for place, key in enumerate(self.groups)]
        return ", ".join([*keys, *[f"{measure.sql(order)} AS m{place}" for place, measure in enumerate(self.measures)]])

    def duck_sql(self, ranges: Sequence[tuple[int, int]]) -> str:
        """The statement for DuckDB, over positions [first, stop) of each table."""
        where = f" WHERE {' AND '.join(f'({c})' for c in self.conditions)}" if self.conditions else ""
        selected = self.selected(", ".join(f"{alias}._pos" for alias in self.aliases))
        names = ", ".join(f"g{place}" for place in range(len(self.groups)))
        text = f"SELECT {selected} FROM {self.tables(ranges)}{where}" + (f" GROUP BY {names}" if names else "")
        text += f" HAVING count(*) >= {self.least}" if self.least else ""
        order = [
            *([f"m0 {self.by} NULLS LAST"] if self.by else []),
            *[f"g{n} NULLS LAST" for n in range(len(self.groups))],
        ]
        text += f" ORDER BY {', '.join(order)}" if order else ""
        return text + ("" if self.limit is None else f" LIMIT {self.limit}") + f" OFFSET {self.skip}"


def draw_groups(make: Chance, join: JoinQuery) -> GroupedJoin:
    """Groups and aggregates of the rows of a join."""
    aliases = ALIASES[: len(join.streams)]
    groups = tuple(dict.fromkeys(_key(make, aliases) for _ in range(make.pick((0, 1, 1, 2)))))
    measures = tuple(dict.fromkeys(_measured(make, aliases) for _ in range(make.number(1, 3))))
    given = {field.name: getattr(join, field.name) for field in fields(join)}
    given |= {"distinct": False, "keys": (), "limit": join.limit if make.likely(40) else None}
    threshold, by = make.pick((0, 0, 2)), make.pick(("", "", "DESC", "ASC"))
    return GroupedJoin(**given, groups=groups, measures=measures, least=threshold, by=by)


def _key(make: Chance, aliases: str) -> str:
    """A column, or an expression over one source or two."""
    alias, form = make.pick(aliases), make.number(0, 5)
    if form == 0:
        return f"{alias}.k + {make.pick(aliases)}.j"
    if form == 1:
        return f"{alias}.d + 0"  # -0.0 and 0.0 are one group, which DuckDB shows as either
    return f"{alias}.{make.pick(('k', 'j', 'm', 't', '_time'))}"


def _measured(make: Chance, aliases: str) -> Measured:
    alias, other = make.pick(aliases), make.pick(aliases)
    condition = f"{other}.j > {make.number(-1, 2)}" if make.likely(30) else ""
    function = make.pick(_FUNCTIONS)
    if function == "count" and make.likely(50):
        return Measured("count", "", condition)
    if function == "sum":
        return Measured("sum", make.pick((f"{alias}.k", f"{alias}.m", f"{alias}.k * 2 + {other}.j")), condition)
    return Measured(function, f"{alias}.{make.pick(('k', 'j', 'm', 't', '_time'))}", condition)
