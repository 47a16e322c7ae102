"""Evaluation cannot fail: every function, operator and type, with sizes and values at their limits, on every path.

    registered first    on arrival, in pieces of 64 rows
    registered later    over the open chunk, in the invocation, and covered by maintenance
    replayed            the same events, into another engine

No path raises, and all of them give the same rows, the same values and the same number of errors. The limits of texts
are small, so that parts and errors of length come by themselves.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.engine.engine import Engine
from psoup.errors import PSoupError
from psoup.events.events import Event
from psoup.expressions import error_guard as evaluation
from psoup.expressions.evaluate import TooMuchText
from psoup.expressions.functions import FUNCTIONS, cast, resolve
from psoup.expressions.render import render
from psoup.expressions.tree import AttributeRef, Call, Expr, Literal
from psoup.local import LocalPSoup
from psoup.model import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, DataType, Kind, decimal
from psoup.values.columns import Column
from psoup.values.kinds import arrow_type
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.expression_oracle import arrow_array
from psoup_testing.oracles.questions import again
from psoup_testing.suite.budget import Budget, replayable

LONGEST = 48
CONFIG = EngineConfig(chunk_rows=64, piece_rows=64, text_bytes=LONGEST, evaluation_bytes=4_096, shape=EAGER)
TYPES: dict[str, DataType] = {
    "b": BIGINT,
    "c": BIGINT,
    "d": DOUBLE,
    "m": decimal(18, 18),
    "w": decimal(18, 0),
    "p": decimal(9, 4),
    "t": TEXT,
    "u": TEXT,
    "s": TIMESTAMP,
    "y": DATE,
    "f": BOOLEAN,
}
TARGETS = (*dict.fromkeys(TYPES.values()), decimal(1, 0), decimal(1, 1), decimal(18, 9))
_LAST_DAY, _LAST_MICRO, _FIRST_MICRO = 2**31 - 2, 2**63 - 2, -9_223_372_022_400_000_000
WHOLE = [0, 1, -1, 2, 7, -8, 10, 18, 19, 400, 65_536, 2**31, 2**32, -(2**32), 10**18 - 1, 10**18, 2**63 - 1, -(2**63)]
REAL = [0.0, -0.0, 0.5, -2.5, 1e15, 1e16, 1e308, -1e308, 5e-324, 2.0**53, 2.0**63, float("inf"), float("-inf")]
TEXTS = [
    *(
        "",
        "x",
        "%",
        "_",
        "\\",
        " ",
        "\t\n",
        "é",
        "Ⱥ" * 16,
        "ⱥ" * 16,
        "ŉ" * 24,
        "x" * LONGEST,
        "9" * LONGEST,
        "日本語" * 5,
    ),
    *(
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "1e400",
        "-1e-400",
        ".",
        "1e",
        "0x1F",
        "nan",
    ),
    *(
        "1" + "0" * 40,
        "1e99999999999",
        "-0." + "9" * 40,
        "1_0",
        "inf",
        "-infinity",
        "true",
        "f",
        "YES",
        "👨‍👩‍👧",
        "\x7f",
    ),
    *(
        "0001-01-01",
        "9999999-12-31",
        "-9999999-01-01",
        "290000-01-01 24:00:00",
        "2020-02-30",
        "epoch",
        "0044-03-15 (BC)",
    ),
    *("2020-01-01 10:00:00.9999999+23:59:59", "2020-01-01 24:00", "294247-01-10 04:00:54.775807", "%_" * 20, "a%b_c\\"),
]
EXTREMES: dict[Kind, Sequence[object]] = {
    Kind.BIGINT: WHOLE,
    Kind.DOUBLE: [*REAL, float("nan")],
    Kind.TEXT: TEXTS,
    Kind.TIMESTAMP: [
        0,
        -1,
        1,
        _FIRST_MICRO,
        _LAST_MICRO,
        86_399_999_999,
        -62_135_596_800_000_001,
        253_402_300_800_000_000,
    ],
    Kind.DATE: [0, -1, 18_321, _LAST_DAY, -_LAST_DAY, 106_751_991, 106_751_992, -106_751_991, -719_529, 2_932_897],
    Kind.BOOLEAN: [True, False],
}
PARTS = ("year", "isoyear", "week", "epoch", "julian", "millennium", "microsecond", "decade", "quarter", "doy")


def extremes(data_type: DataType) -> Sequence[object]:
    if data_type.kind is not Kind.DECIMAL:
        return EXTREMES[data_type.kind]
    most = 10**data_type.precision - 1
    return [0, 1, -1, 5, -5, most, -most, most // 2 + 1, most // 10]


def table(rng: random.Random, rows: int) -> pa.Table:
    columns = {}
    for name, data_type in TYPES.items():
        values = [None if rng.random() < 0.08 else rng.choice(extremes(data_type)) for _ in range(rows)]
        columns[name] = arrow_array(data_type, values)
    return pa.table({name: column.cast(arrow_type(TYPES[name])) for name, column in columns.items()})


def leaf(rng: random.Random) -> Expr:
    name = rng.choice(list(TYPES))
    data_type = TYPES[name]
    if rng.random() < 0.6:
        return AttributeRef(data_type, list(TYPES).index(name), name)
    value = None if rng.random() < 0.1 else rng.choice(extremes(data_type))
    return Literal(data_type, value)  # type: ignore[arg-type]


def grown(rng: random.Random, pool: list[Expr]) -> Expr | None:
    """A function of some of the pool, if these arguments fit one; one in eight is a cast."""
    try:
        if rng.random() < 0.12:
            return cast(rng.choice(pool), rng.choice(TARGETS), try_=rng.random() < 0.3)
        name = rng.choice([n for n in FUNCTIONS if n != "difference"])
        function = FUNCTIONS[name]
        args = [rng.choice(pool) for _ in range(rng.randint(function.least, min(function.most, function.least + 2)))]
        if name in ("extract", "date_trunc"):
            args[0] = Literal(TEXT, rng.choice(PARTS))
        if name == "add_interval":
            months, micros = rng.choice([0, 1, -1, 7_200_000]), rng.choice([0, 1, -(2**62), 86_400_000_000])
            args[1:] = [Literal(BIGINT, months), Literal(BIGINT, micros)]
        return resolve(name, args)
    except PSoupError:
        return None


def expressions(rng: random.Random, wanted: int) -> list[Expr]:
    """Functions of functions: every one that types joins the pool, and may become an argument."""
    pool: list[Expr] = [leaf(rng) for _ in range(24)]
    made: list[Expr] = []
    for _ in range(40 * wanted):
        call = grown(rng, [*pool, *made[-20:]])
        if isinstance(call, Call) and len(render(call)) < 1_500:
            made.append(call)
        if len(made) >= wanted:
            break
    return made


def condition(rng: random.Random, made: Sequence[Expr]) -> Expr:
    """Something of any type, made a condition."""
    expr = rng.choice(made)
    if expr.type == BOOLEAN and rng.random() < 0.6:
        return expr
    if rng.random() < 0.2:
        return resolve(rng.choice(["is_null", "is_not_null"]), [expr])
    peers = [other for other in made if other.type == expr.type]
    value = Literal(expr.type, rng.choice(extremes(expr.type)))  # type: ignore[arg-type]
    return resolve(rng.choice(["eq", "ne", "lt", "le", "gt", "ge"]), [expr, rng.choice([value, *peers])])


def statements(rng: random.Random, soup: LocalPSoup, wanted: int) -> list[str]:
    """Statements that the stream takes; what is refused (a constant that is out of range …) is left out."""
    found: list[str] = []
    made = expressions(rng, 3 * wanted)
    while len(found) < wanted:
        where = render(condition(rng, made))
        if rng.random() < 0.4:
            where = f"({where}) {rng.choice(['AND', 'OR'])} ({render(condition(rng, made))})"
        value, key = rng.sample(made, 2)
        order = f" ORDER BY {render(key)}, _id" if rng.random() < 0.3 else ""
        sql = f"SELECT _id, {render(value)} AS v FROM x WHERE {where}{order}"
        try:
            soup.unregister(soup.register(sql))
        except PSoupError:
            continue
        found.append(sql)
    return found


class Watched(LocalPSoup):
    """Remembers the events, for a replay."""

    def __init__(self) -> None:
        super().__init__(CONFIG)
        self.events: list[Event] = []
        applied = self.engine.apply

        def apply(events: Sequence[Event]) -> object:
            self.events.extend(events)
            return applied(events)

        self.engine.apply = apply  # type: ignore[method-assign, assignment]
        columns = ", ".join(f"{name} {data_type}" for name, data_type in TYPES.items())
        self.execute(f"CREATE STREAM x ({columns})")


Seen = tuple[pa.Table, int]


def seen(soup: LocalPSoup, query: int) -> Seen:
    answer = again(soup.invoke, query)
    return answer.to_table(), answer.completeness.errors


def same(left: Seen, right: Seen) -> bool:
    return left[1] == right[1] and left[0].schema == right[0].schema and written(left[0]) == written(right[0])


def written(found: pa.Table) -> list[str]:
    """Python has no year 10,000, and there a NaN is not equal to itself."""
    whole = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in found.columns]
    return [column.combine_chunks().to_string(window=1_000) for column in whole]


def test_no_expression_fails_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """What guards the writer against an evaluation that raises has nothing to do."""
    raised: list[BaseException] = []
    evaluated = evaluation.column_of

    def column_of(*arguments: Any) -> Column:
        try:
            return evaluated(*arguments)
        except TooMuchText:
            raise
        except Exception as problem:
            raised.append(problem)
            raise

    monkeypatch.setattr(evaluation, "column_of", column_of)
    budget = Budget("extremes on all paths", cases=32)
    for number in budget.rounds():
        with replayable(number):
            budget.count(one_round(random.Random(number)))
            if raised:
                raise raised[0]


def one_round(rng: random.Random) -> int:
    first, later = Watched(), Watched()
    asked = statements(rng, first, 10)
    early = [first.register(sql) for sql in asked]
    batches = [table(rng, rng.choice([1, 40, 64, 100])) for _ in range(3)]
    for batch in batches:
        first.push("x", batch)
        later.push("x", batch)
    late = [later.register(sql) for sql in asked]
    again = Engine(CONFIG)
    again.apply(first.events)
    replayed = LocalPSoup(CONFIG, first.clock)
    replayed.engine = again
    wanted = [seen(first, query) for query in early]
    for soup, queries in ((later, late), (replayed, early)):
        for _ in range(2):
            for sql, query, there in zip(asked, queries, wanted, strict=True):
                assert same(seen(soup, query), there), sql
            soup.maintain()
            soup.check()
    first.maintain()
    for sql, query, there in zip(asked, early, wanted, strict=True):
        assert same(seen(first, query), there), sql
        first.explain(query)
    return len(asked)
