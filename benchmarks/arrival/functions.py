"""Rows `functions.*`: each newer function of SQL beside the nearest of the first ones, over the same column, one core.

    functions.times      strptime(w, …) beside CAST(w AS TIMESTAMP), date_diff beside two extracts, …
    functions.texts      lpad beside concat, regexp_matches beside LIKE, …
    functions.numbers    exp beside power, & beside +, …
    functions.libm       sin(d) beside DuckDB's sin(d), …

A row is the pair in which the newer function does worst; its note has all pairs of the family. Nothing is near md5,
gcd and lcm.

A mathematical function is a call of libm for each value, because NumPy's vectors give different last bits on different
processors. The nearest of the first functions is power, which is such a call, too; but what a call takes is libm's
affair: its sin takes 1.5 times as long as its pow, tan 2.3 times, as they have more to do. So `functions.numbers` has
those that libm computes as fast as pow, and `functions.libm` has all of them beside DuckDB's, which calls the same
libm: the statement `SELECT max(f(d))` on one thread, beside ours and then NumPy's max. Its note says what each is
beside power, too.

Tests compare the values with DuckDB's; here a value must only be no error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.tool.measure import Row, Target, in_turns
from benchmarks.tool.run import Run
from psoup.expressions.evaluate import Scope, evaluate
from psoup.expressions.numbers.mathematics import REAL
from psoup.model import StreamSpec
from psoup.sql import create_stream, standing_query
from psoup.values.columns import Column
from psoup.values.from_arrow import columns_from_arrow

CREATE = (
    "CREATE STREAM s (t TIMESTAMP, u TIMESTAMP, b BIGINT, c BIGINT, m BIGINT, d DOUBLE, e DOUBLE,"
    " w TEXT, n TEXT, z TEXT)"
)
AS_FAST = 0.9
"""Least ratio that counts as the same speed. Some pairs are one function by two names, and differ as much between
turns.
"""

MADE_WHERE_LIKE = "CASE WHEN n LIKE '%t_r%' THEN replace(n, 'ter', 'x') ELSE n END"
"""Finds by a pattern and makes texts, as regular expressions do: replace alone looks for bytes that are known."""

FAMILIES: dict[str, dict[str, str]] = {
    "times": {
        "strptime(w, '%Y-%m-%d %H:%M:%S.%f')": "CAST(w AS TIMESTAMP)",
        "try_strptime(z, '%Y-%m-%d')": "TRY_CAST(z AS TIMESTAMP)",
        "strftime(t, '%Y-%m-%d %H:%M:%S.%f')": "CAST(t AS TEXT)",
        "date_diff('month', t, u)": "extract(month FROM t) + extract(month FROM u)",
        "date_diff('second', t, u)": "extract(epoch FROM t) + extract(epoch FROM u)",
        "time_bucket(INTERVAL '15' MINUTE, t)": "date_trunc('minute', t)",
        "time_bucket(INTERVAL '3' MONTH, t)": "date_trunc('quarter', t)",
        "make_date(b, m, m)": "date_trunc('month', t)",
        "make_timestamp(b, m, m, m, m, d)": "date_trunc('month', t) + INTERVAL '1' MONTH",
        "to_timestamp(d)": "t + INTERVAL '1' DAY",
        "dayname(t)": "CAST(t AS TEXT)",
        "last_day(t)": "date_trunc('month', t)",
        "epoch_ms(t)": "extract(epoch FROM t)",
        "t - u > INTERVAL '1' DAY": "t > u + INTERVAL '1' DAY",
        "epoch(t - u)": "extract(epoch FROM t) + extract(epoch FROM u)",
        "t AT TIME ZONE '+02:00'": "t + INTERVAL '2' HOUR",
    },
    "texts": {
        "left(n, 3)": "substr(n, 1, 3)",
        "right(n, 3)": "substr(n, -3, 3)",
        "instr(n, 'ter')": "replace(n, 'ter', 'x')",
        "ends_with(n, 'ter')": "starts_with(n, 'ter')",
        "reverse(n)": "substr(n, 2)",
        "repeat(n, 2)": "concat(n, n)",
        "lpad(n, 30, '-')": "substr(concat(n, '-', n), 1, 30)",
        "concat_ws('-', n, b)": "concat(n, '-', b)",
        "split_part(n, ' ', 2)": "replace(n, ' ', '-')",
        "strlen(n)": "length(n)",
        "ascii(n)": "length(n)",
        "chr(b)": "CAST(b AS TEXT)",
        "n ILIKE '%TER%'": "lower(n) LIKE '%ter%'",
        "n ~ 't.r'": "n LIKE '%t_r%'",
        "regexp_extract(n, 't.r')": MADE_WHERE_LIKE,
        "regexp_replace(n, 't.r', 'x')": MADE_WHERE_LIKE,
    },
    "numbers": {
        **{f"{name}(d)": "power(d, 1.5)" for name in ("exp", "ln", "log2", "log10", "cbrt", "atan", "tanh", "asinh")},
        "sign(d)": "abs(d)",
        "trunc(d)": "round(d)",
        "isnan(d)": "abs(d)",
        "mod(b, c)": "b % c",
        "b & c": "b + c",
        "b << c": "b * c",
        "xor(b, c)": "b + c",
        "~b": "-b",
        "TRY_CAST(b AS SMALLINT)": "TRY_CAST(d AS BIGINT)",
    },
}
"""By family: an expression of a newer function, and the nearest of one that was there at first."""

OF_LIBM = (
    *(f"{name}(d)" for name in REAL if name not in ("asin", "acos", "atanh")),
    *("asin(e)", "acos(e)", "atanh(e)", "atan2(d, e)", "power(d, e)"),
)
BLOCKS = 16
"""Evaluations of the same rows in a turn, because a statement of DuckDB takes time before it begins."""


def rows(run: Run) -> Iterator[Row]:
    """A row for each family."""
    for family, pairs in FAMILIES.items():
        name = f"functions.{family}"
        yield from run.part(partial(_measured, run, name, pairs), name)
    yield from run.part(partial(_beside_duckdb, run, "functions.libm"), "functions.libm")


def _measured(run: Run, name: str, pairs: dict[str, str]) -> Iterator[Row]:
    count, samples = run.of(16_384, 16_384, 64), run.of(5, 5, 1)
    spec = create_stream(CREATE)
    columns = columns_from_arrow(spec.schema, _table(count))
    results = []
    for newer, older in pairs.items():
        turns = [partial(_value, _bound(spec, text), columns, count) for text in (newer, older)]
        ours, nearest = in_turns(turns, (count, count), samples)
        results.append((ours.cpu / nearest.cpu, newer, older, ours.wall, nearest.wall))
    results.sort(key=lambda pair: pair[0])
    _, newer, older, sample, peer = results[0]
    note = f"{newer} beside {older}; " + ", ".join(f"{text} {ratio:.2f}x" for ratio, text, *_ in results)
    yield Row(name, sample, "rows/s", "nearest", peer, Target(at_least=AS_FAST), note)


def _beside_duckdb(run: Run, name: str) -> Iterator[Row]:
    """Functions of libm: ours over a column, and DuckDB's, on one thread."""
    count, samples = run.of(16_384, 16_384, 64), run.of(7, 5, 1)
    spec, table = create_stream(CREATE), _table(count)
    columns, results = columns_from_arrow(spec.schema, table), []
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("rows", pa.concat_tables([table] * BLOCKS))
        connection.execute("CREATE TABLE s AS SELECT d, e FROM rows")
        for text in OF_LIBM:
            turns = [partial(_greatest, _bound(spec, each), columns, count) for each in (text, "power(d, 1.5)")]
            turns.append(partial(_asked, connection, f"SELECT max({text}) FROM s"))
            ours, power, theirs = in_turns(turns, [BLOCKS * count] * 3, samples)
            results.append((ours.cpu / theirs.cpu, ours.cpu / power.cpu, text, ours.wall, theirs.wall))
    results.sort(key=lambda pair: pair[0])
    _, _, text, sample, peer = results[0]
    texts = ", ".join(f"{text} {ratio:.2f}x ({power:.2f}x power)" for ratio, power, text, *_ in results)
    yield Row(name, sample, "rows/s", "DuckDB, one thread", peer, Target(at_least=AS_FAST), f"{text}; {texts}")


def _greatest(bound: Callable[[Scope], Column], columns: Sequence[Column], count: int) -> None:
    for _ in range(BLOCKS):
        bound(Scope(columns, count)).values.max()


def _asked(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    connection.execute(statement).fetchall()


def _bound(spec: StreamSpec, text: str) -> Callable[[Scope], Column]:
    query = standing_query(f"SELECT {text} AS v FROM s", lambda _: spec)
    return partial(evaluate, query.select[0].expr)


def _value(bound: Callable[[Scope], Column], columns: Sequence[Column], count: int) -> None:
    column = bound(Scope(columns, count))
    if column.error is not None and column.error.any():
        raise ValueError("an expression that is measured has errors")


def _table(count: int) -> pa.Table:
    random = np.random.default_rng(13)
    times = [np.datetime64("2013-07-01", "us") + random.integers(0, 10**14, count) for _ in range(2)]
    written = pa.array(times[0]).cast(pa.string())
    syllables = np.array(["ka", "ter", "lo ", "vos", "en", "Da", "ri", "su"])
    return pa.table(
        {
            "t": times[0],
            "u": times[1],
            "b": random.integers(1, 3_000, count),
            "c": random.integers(1, 20, count),
            "m": random.integers(1, 12, count),
            "d": random.random(count) * 50,
            "e": random.random(count),
            "w": written,
            "z": [text[:10] for text in written.to_pylist()],
            "n": ["".join(row) for row in syllables[random.integers(0, 8, (count, 8))].tolist()],
        }
    )
