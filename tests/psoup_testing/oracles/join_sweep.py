"""Directed joins: every kind of factor, type, window, coverage and route meets every other, each pair in some case.

    cases()                     few cases that have all pairs       ("band", "TEXT", "rows", "attached", "lottery"), …
    Swept("attached", folder)   four streams whose tuples are kept in one way, and the cases of that coverage over them
    swept.compare(case)         the answer against DuckDB; a pair counts once an answer with rows has met it

Tuples come one a second from each stream; numbers are small, so that comparisons of two kinds lose nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from pathlib import Path

import pyarrow as pa

from psoup.config import EngineConfig
from psoup.joins.policies import Fixed, InFromOrder, Lottery, Policy
from psoup.model import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, Attribute, Kind, Schema, decimal
from psoup.work.clock import VirtualClock
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.histories.histories import EAGER
from psoup_testing.histories.join_past import attach_history, cover_sides, table_of
from psoup_testing.histories.join_statements import ALIASES, JoinQuery
from psoup_testing.histories.values import Value
from psoup_testing.histories.windows import NOW, Edge, Window
from psoup_testing.oracles.duckdb_answers import difference
from psoup_testing.oracles.duckdb_tables import drop_database, empty_database
from psoup_testing.oracles.model import Declaration, ModelStream, Row
from psoup_testing.oracles.questions import TIMES, plain_rows, rows_of
from psoup_testing.suite.kept_structures import KEPT

SECOND = 1_000_000
BASE = 1_600_000_000 * SECOND
ROWS, HISTORY, FEW = 160, 70, 60
SCHEMA = Schema(
    (
        *(Attribute(name, BIGINT, True) for name in ("h", "i", "k", "l")),
        *(Attribute(name, DOUBLE, True) for name in ("d", "e")),
        *(Attribute(name, decimal(9, scale), True) for name, scale in (("m", 2), ("n", 4))),
        *(Attribute(name, TEXT, True) for name in ("t", "u", "w")),
        *(Attribute(name, BOOLEAN, True) for name in ("b", "c")),
        *(Attribute(name, DATE, True) for name in ("x", "y")),
        Attribute("z", TIMESTAMP, True),
        Attribute("at", TIMESTAMP, False),
    )
)

TYPES = {
    "BIGINT": ("k", "l"),
    "DOUBLE": ("d", "e"),
    "DECIMAL": ("m", "n"),
    "TEXT": ("t", "u"),
    "BOOLEAN": ("b", "c"),
    "DATE": ("x", "y"),
    "BIGINT, DOUBLE": ("k", "d"),
    "DECIMAL, BIGINT": ("m", "k"),
    "DOUBLE, DECIMAL": ("d", "n"),
    "DATE, TIMESTAMP": ("x", "z"),
}
"""The columns of both operands: of the type, or of two that compare."""
FACTORS = {
    "key": ("{a}.{x} = {b}.{y}",),
    "expression": ("CASE WHEN {a}.i > 0 THEN {a}.{x} END = {b}.{y}",),
    "two keys": ("{a}.{x} = {b}.{y}", "{b}.i = {a}.i"),
    "band": ("{a}.{x} < {b}.{y}",),
    "two bands": ("{a}.{x} <= {b}.{y}", "{b}.i >= {a}.i - 1"),
    "key and band": ("{a}.i = {b}.i", "{a}.{x} >= {b}.{y}"),
    "implied": ("{a}.{x} = {b}.{y}", "{b}.{y} = {c}.{x}"),
    "rest": ("{a}.i = {b}.i", "({a}.{x} = {b}.{y} OR {a}.h > {b}.h)"),
    "failing key": ("CASE WHEN CAST({a}.w AS BIGINT) > 0 THEN {a}.{x} END = {b}.{y}",),
    "failing band": ("CASE WHEN CAST({a}.w AS BIGINT) > 0 THEN {a}.{x} END <= {b}.{y}",),
    "failing rest": ("{a}.i = {b}.i", "CASE WHEN {b}.{y} IS NULL THEN TRUE ELSE CAST({a}.w AS BIGINT) > 0 END"),
    "none": (),
}
FAILING = ("failing key", "failing band", "failing rest")
NOT_A_NUMBER = "a.w IS NOT NULL AND CAST(a.w AS BIGINT) IS NULL"
Spans = Sequence[tuple[int, int]]
"""The places of each source's tuples, [first, stop)."""
WINDOWS = {
    "landmark": Window(),
    "sliding": Window(Edge("now", 60 * SECOND, "(NOW - 60 SECONDS)"), NOW),
    "snapshot": Window(
        Edge("at", BASE + 100 * SECOND, f"({BASE // SECOND + 100})"),
        Edge("at", BASE + 150 * SECOND, f"({BASE // SECOND + 150})"),
    ),
    "rows": Window(Edge("rows", 80, "(NOW - 80 ROWS)"), NOW),
}
WINDOW_KINDS = (*WINDOWS, "each its own")
ROUTES = ("of two", "as in FROM", "backwards", "lottery", "by default")
FORMS = {
    "open": {"row"},
    "sealed": {"list", "row+run"},
    "late": {"uncovered", "row"},
    "evicted": {"uncovered", "row+run"},
    "restarted": {"uncovered", "row+run"},
    "archived": {"uncovered", "row+run"},
    "attached": {"uncovered", "list", "row"},
    "backfilled": {"on disk", "list", "row"},
    "covered": {"on disk", "row"},
}
"""The coverages, and the forms that the columns of sides have then."""
ON_DISK = ("archived", "attached", "backfilled", "covered")
PARTS = {
    "factor": tuple(FACTORS),
    "type": tuple(TYPES),
    "window": WINDOW_KINDS,
    "coverage": tuple(FORMS),
    "route": ROUTES,
}


@dataclass(frozen=True, slots=True)
class Case:
    """A join of the sweep."""

    factor: str
    type: str
    window: str
    coverage: str
    route: str

    @property
    def pairs(self) -> set[tuple[tuple[str, str], tuple[str, str]]]:
        """The pairs that it meets."""
        return set(combinations([(part, getattr(self, part)) for part in PARTS], 2))

    @property
    def makes_sense(self) -> bool:
        """Whether the case is possible: two chained factors need three sources, and operands need a factor."""
        return not (self.factor == "implied" and self.route == "of two")

    def policy(self, seed: int) -> Policy:
        """The policy that takes the route."""
        given = {"backwards": Fixed((3, 2, 1)), "as in FROM": Fixed(), "lottery": Lottery(seed)}
        return given.get(self.route) or InFromOrder()

    def query(self, number: int) -> JoinQuery:
        """The join: the factor between the first two sources, the others by keys of their own."""
        chance = random.Random(number)
        count = 2 if self.route == "of two" else 3 + number % 2
        streams = tuple(chance.sample(range(4), count)) if number % 5 else (number % 4,) * count
        x, y = TYPES[self.type][:: 1 if number % 2 else -1]
        conditions = [form.format(a="a", b="b", c="c", x=x, y=y) for form in FACTORS[self.factor]]
        conditions += [f"{ALIASES[place]}.h = {ALIASES[place - 1]}.h" for place in range(2, count)]
        conditions += [f"{alias}.l {chance.choice(('<> 3', '> 0', '<= 5'))}" for alias in ALIASES[:count]]
        own = [WINDOWS[chance.choice([*WINDOWS])] for _ in streams]
        windows = own if self.window == "each its own" else [WINDOWS[self.window]] * count
        outputs = (f"a.{x}", f"b.{y}", *(f"{alias}._id" for alias in ALIASES[:count]))
        limit = 200 if self.factor == "none" else None if self.factor in FAILING or count == 2 else 1_500
        bracketed = self.window == "each its own" or bool(number % 3)
        return JoinQuery(streams, tuple(windows), bracketed, outputs, tuple(conditions), (), limit=limit)


def required() -> set[tuple[tuple[str, str], tuple[str, str]]]:
    """Every pair that makes sense."""
    pairs: set[tuple[tuple[str, str], tuple[str, str]]] = set()
    for (first, firsts), (second, seconds) in combinations(PARTS.items(), 2):
        pairs |= {((first, a), (second, b)) for a, b in product(firsts, seconds)}
    return pairs - {(("factor", "implied"), ("route", "of two"))}


def cases() -> list[Case]:
    """Cases that have every pair together, each drawn around a pair that no other has. Always the same ones."""
    chance, left, made = random.Random(1), sorted(required()), list[Case]()
    wanted = set(left)
    while wanted:
        around = dict(next(pair for pair in left if pair in wanted))
        drawn = [{part: chance.choice(values) for part, values in PARTS.items()} | around for _ in range(40)]
        sensible = [case for parts in drawn if (case := Case(**parts)).makes_sense]
        best = max(sensible, key=lambda case: len(case.pairs & wanted))
        wanted -= best.pairs
        made.append(best)
    return made


class Swept:
    """Four streams whose tuples are kept in one way, and the joins of some numbered cases over them."""

    def __init__(self, coverage: str, folder: Path, wanted: Sequence[tuple[int, Case]]) -> None:
        self._folder, self._queries = folder, {case: case.query(number) for number, case in wanted}
        config = EngineConfig(chunk_rows=64, results_bytes=0 if coverage == "evicted" else 1 << 30, shape=EAGER)
        self._clock = VirtualClock(BASE + ROWS * SECOND)
        self._soup = RestartingPSoup(config, self._clock, folder / "data")
        self._duck = empty_database(optimized=True)
        on_disk = {"keep_rows": 500, "archive": 470} if coverage in ("archived", "covered") else {}
        declared = [Declaration(f"s{n}", SCHEMA, SCHEMA.names.index("at"), 0, **on_disk) for n in range(4)]
        self._models = [ModelStream(declaration, 0) for declaration in declared]
        self._history = HISTORY if coverage in ("attached", "backfilled") else 0
        chance = random.Random(7)
        seconds = range(ROWS - FEW if coverage == "open" else 0, ROWS)
        self._rows = [[_row(chance, BASE + second * SECOND) for second in seconds] for _ in declared]
        for declaration, rows in zip(declared, self._rows, strict=True):
            self._soup.execute(declaration.sql())
            self._duck.register("arrived", _numbered(declaration, rows, self._history))
            self._duck.execute(f"CREATE TABLE {declaration.name} AS SELECT * FROM arrived")
        self._ids: dict[Case, int] = {}
        self._prepare(coverage)

    def close(self) -> None:
        """Check what must hold, and close what is open."""
        self._soup.check()
        self._soup.store.close()
        drop_database(self._duck)

    def compare(self, case: Case) -> tuple[int, str | None]:
        """The number of rows of a case's join, and how its answer differs from DuckDB's (None: not at all)."""
        query = self._queries[case]
        now, clock = BASE + (ROWS - 1) * SECOND, self._clock.now()
        sources = zip(query.streams, query.windows, strict=True)
        ranges = [self._models[stream].range_at(window, clock, now) for stream, window in sources]
        spans = [(range_.first, range_.stop) for range_ in ranges]
        expected, failed, problem = self._asked(query, spans), self._failed(case, query, spans), None
        for _ in range(TIMES):
            with KEPT.compared():
                answer = self._soup.invoke(self._ids[case])
                problem = problem or difference(expected, rows_of(answer))
            if answer.errors != failed:
                problem = f"{answer.errors} errors, not {failed}; {problem}"
        return len(expected), problem and f"{problem}\n{case}\n{query.sql()}\n{spans}"

    def _failed(self, case: Case, query: JoinQuery, spans: Spans) -> int:
        """The number of tuples of the first source, or of the join, of which a text is not a number."""
        if case.factor not in FAILING:
            return 0
        conditions = [c for c in query.conditions if "CAST" not in c]
        if case.factor == "failing rest":
            beside = [*conditions, f"b.{query.outputs[1][2:]} IS NOT NULL"]
            return self._count(replace(query, conditions=(*beside, NOT_A_NUMBER)), spans)
        sides = [[c for c in conditions if c.startswith(f"{alias}.l")] for alias in query.aliases]
        owns = [
            tuple(c.replace(f"{alias}.", "a.") for c in own) for alias, own in zip(query.aliases, sides, strict=True)
        ]
        sources = zip(query.streams, owns, strict=True)
        alone = [replace(query, streams=(n,), outputs=("a._id",), conditions=own) for n, own in sources]
        if not all(self._count(side, [span]) for side, span in zip(alone, spans, strict=True)):
            return 0
        return self._count(replace(alone[0], conditions=(*alone[0].conditions, NOT_A_NUMBER)), spans[:1])

    def _asked(self, query: JoinQuery, spans: Spans) -> list[Row]:
        """The rows that DuckDB answers with; what cannot be computed is NULL there."""
        sql = query.duck_sql(spans).replace("CAST(", "TRY_CAST(")
        return plain_rows(self._duck.sql(sql).to_arrow_table())

    def _count(self, query: JoinQuery, spans: Spans) -> int:
        return len(self._asked(query, spans))

    def _prepare(self, coverage: str) -> None:
        """Bring the tuples and the queries to where the coverage has them."""
        early = coverage not in ("late", "covered")
        if early:
            self._register()
        for stream, rows in enumerate(self._rows):
            model = self._models[stream]
            if self._history:
                past, folder = [(_time(row), row) for row in rows[:HISTORY]], self._folder / f"history{stream}"
                attach_history(self._soup, folder, model.declaration, past, known=coverage == "backfilled")
                model.attach(past)
            for start in range(self._history, len(rows), 45):
                piece = rows[start : start + 45]
                self._soup.push(f"s{stream}", table_of(model.declaration, piece), refused="count")
                model.push(piece, self._clock.now())
        if coverage not in ("open", "late"):
            self._soup.maintain()
        if coverage == "restarted":
            self._soup.restart()
        if not early:
            self._register()
        if coverage == "covered":
            assert all(cover_sides(self._soup, self._folder / f"cover{n}", f"s{n}") for n in range(4))
        self._is_kept_so(coverage)

    def _register(self) -> None:
        self._ids = {case: self._soup.register(query.sql()) for case, query in self._queries.items()}

    def _is_kept_so(self, coverage: str) -> None:
        """Refuse to say anything about tuples that are kept in another way than the coverage says."""
        sources = [source for query_id in self._ids.values() for source in self._soup.explain(query_id).sources]
        views = [*self._soup.engine.snapshot().by_id.values()]
        assert any(view.archived for view in views) == (coverage in ON_DISK)
        forms = {form for source in sources for form in source.column_forms}
        assert forms == FORMS[coverage], f"{coverage}: columns are kept as {forms}"
        assert any(source.uncovered for source in sources) == (coverage in ("archived", "attached"))


def _row(chance: random.Random, time: int) -> Row:
    """A tuple of small numbers, some of them NULL."""
    row: list[Value] = []
    for attribute in SCHEMA.attributes[:-1]:
        number = chance.choice((0, 0, 0, 1, 1, 2, 2, *range(-2, 7)))
        if chance.random() < 0.1:
            row.append(None)
        elif attribute.name == "h":
            row.append(chance.randrange(16))
        elif attribute.name == "w":
            row.append(chance.choice(("1", "2", "0", "x", "")))
        else:
            row.append(_VALUES[attribute.type.kind](number, attribute.type.scale))
    return (*row, time)


_VALUES: dict[Kind, Callable[[int, int], Value]] = {
    Kind.BIGINT: lambda number, _: number,
    Kind.DOUBLE: lambda number, _: float("nan") if number == 6 else -0.0 if number == 5 else number / 2,
    Kind.DECIMAL: lambda number, scale: number * 10**scale // 2,
    Kind.TEXT: lambda number, _: ("", "a", "A", "ab", "b", "é")[number % 6],
    Kind.BOOLEAN: lambda number, _: number > 1,
    Kind.DATE: lambda number, _: number // 2,
    Kind.TIMESTAMP: lambda number, _: number * 43_200 * SECOND,
}


def _time(row: Row) -> int:
    time = row[-1]
    assert isinstance(time, int)
    return time


def _numbered(declaration: Declaration, rows: Sequence[Row], history: int) -> pa.Table:
    """The rows with their places and IDs; those of history have IDs below zero."""
    table = table_of(declaration, rows).append_column("_pos", pa.array(range(len(rows)), pa.int64()))
    return table.append_column("_id", pa.array(range(-history, len(rows) - history), pa.int64()))
