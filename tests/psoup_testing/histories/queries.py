"""Random standing queries, written for PSoup; their parts stay apart so that the oracle can ask DuckDB."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace

from psoup.model import BIGINT, TIMESTAMP
from psoup_testing.histories.expressions import Expression, Maker, column
from psoup_testing.histories.predicates import Predicate, draw_plain, draw_predicate
from psoup_testing.histories.windows import WINDOW_KINDS, Window, draw_window

ID = column("_id", BIGINT)
TIME = column("_time", TIMESTAMP)


@dataclass(frozen=True, slots=True)
class Key:
    """A key of ORDER BY."""

    expression: Expression
    descending: bool = False
    nulls_first: bool | None = None

    def suffix(self) -> str:
        """DESC and NULLS FIRST or LAST as written (LAST is the default)."""
        nulls = {True: " NULLS FIRST", False: " NULLS LAST", None: ""}[self.nulls_first]
        return (" DESC" if self.descending else "") + nulls


@dataclass(frozen=True, slots=True)
class Query:
    """A standing query over `stream`. `outputs` None is `*`."""

    stream: str
    columns: tuple[Expression, ...]
    outputs: tuple[Expression, ...] | None = None
    where: Predicate | None = None
    distinct: bool = False
    order: tuple[Key, ...] = ()
    limit: int | None = None
    skip: int = 0
    window: Window = Window()  # noqa: RUF009 - it is frozen

    @property
    def selected(self) -> tuple[Expression, ...]:
        """The SELECT list with `*` expanded."""
        return self.columns if self.outputs is None else self.outputs

    def sql(self) -> str:
        """The text to register."""
        outputs = "*"
        if self.outputs is not None:
            outputs = ", ".join(f"{e.psoup_sql()} AS o{i}" for i, e in enumerate(self.outputs))
        text = f"SELECT {'DISTINCT ' if self.distinct else ''}{outputs} FROM {self.stream}"
        if self.where is not None:
            text += f" WHERE {self.where.psoup_sql()}"
        if self.order:
            text += " ORDER BY " + ", ".join(key.expression.psoup_sql() + key.suffix() for key in self.order)
        if self.limit is not None:
            text += f" LIMIT {self.limit}"
        if self.skip:
            text += f" OFFSET {self.skip}"
        window = self.window.sql()
        return f"{text} {window}" if window else text

    def folded(self) -> bool:
        """Whether a part of an expression is constant, so that its failure is found when the query is registered."""
        parts = [*self.selected, *(key.expression for key in self.order)]
        leaves = [] if self.where is None else [leaf.condition for leaf in self.where.leaves()]
        return any(part.folded() for part in [*parts, *leaves])

    def identified(self) -> Query:
        """The same tuples, but their IDs: for finding which tuples an answer is made of."""
        return replace(self, outputs=(ID,), distinct=False, order=(), limit=None, skip=0)


def draw_outputs(make: Maker) -> tuple[Expression, ...] | None:
    """A SELECT list: `*`, or a few attributes, pseudo-columns and expressions."""
    if make.number(0, 3) == 0:
        return None
    columns = make.scope.columns()
    outputs: list[Expression] = []
    for _ in range(make.number(1, 3)):
        choice = make.number(0, 5)
        if choice < 3:
            outputs.append(make.pick(columns))
        else:
            outputs.append(make.pick((ID, TIME)) if choice == 3 else make.of(make.pick(columns).type))
    return tuple(outputs)


def draw_order(make: Maker, query: Query) -> tuple[Key, ...]:
    """Up to two keys, none constant; with DISTINCT only what is selected may order."""
    candidates = [e for e in (query.selected if query.distinct else query.columns) if not e.constant]
    keys = []
    for _ in range(make.number(0, 2) if candidates else 0):
        chosen = make.pick(candidates)
        other = make.of(chosen.type) if not query.distinct and make.number(0, 3) == 0 else chosen
        chosen = chosen if other.constant else other
        keys.append(Key(chosen, make.number(0, 1) == 1, make.pick((None, False, True))))
    return tuple(keys)


def draw_query(make: Maker, stream: str, base: int, span: int, window_kind: str | None = None) -> Query:
    """Any query over the stream whose times start about `base` (microseconds) and span some seconds."""
    form = make.number(0, 9)
    where = None if not form else draw_plain(make) if form > 6 else draw_predicate(make)
    window = draw_window(make, window_kind or make.pick(WINDOW_KINDS), base, span)
    columns = tuple(make.scope.columns())
    query = Query(stream, columns, draw_outputs(make), where, make.number(0, 4) == 4, window=window)
    if make.number(0, 2) == 2:
        query = replace(query, order=draw_order(make, query))
    if make.number(0, 3) == 3:
        query = replace(query, limit=make.number(0, 40), skip=make.pick((0, 0, 1, 7)))
    return query


CONSTANT = re.compile(r"-?\d+(\.\d+)?|'[^']*'")


def with_other_constants(source: random.Random, text: str) -> str:
    """The statement with some of its constants exchanged, mostly for others of their kind."""

    def other(match: re.Match[str]) -> str:
        if source.random() < 0.4:
            return match[0]
        if match[0][0] == "'":
            return source.choice(["'a'", "''", "'it''s'", "'é'", "'7'", "'2020-01-01'", "'x%'", "'a\0'", "'nan'"])
        return source.choice(["7", "-3", "0", "007", "1.50", "9223372036854775808", "-0.0", "12345678901234567890.5"])

    return CONSTANT.sub(other, text)
