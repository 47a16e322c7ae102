"""Texts that expressions make: none is longer than a value may be, and all together take no more than there is room."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig, TextLimits
from psoup.errors import InvalidInput, ResourceExhausted
from psoup.expressions.evaluate import Scope, TooMuchText, evaluate
from psoup.expressions.functions import FUNCTIONS, cast, resolve
from psoup.expressions.tree import AttributeRef, Call, Expr, Literal
from psoup.local import LocalPSoup
from psoup.model import BIGINT, BOOLEAN, TEXT
from psoup.values.columns import Column
from psoup.values.from_arrow import column_from_arrow
from psoup_testing.oracles.expression_oracle import Oracle, canonical, check
from psoup_testing.suite.sweeps import in_parts, swept

A, B = AttributeRef(TEXT, 0, "a"), AttributeRef(TEXT, 1, "b")
X, MANY = Literal(TEXT, "x"), Literal(TEXT, "x" * 3000)
MIB = 1 << 20


def texts(*values: str | None) -> Column:
    return column_from_arrow("a", TEXT, pa.array(values, pa.large_string()))


def thrice(expr: Expr) -> Expr:
    for _ in range(3):
        expr = resolve("replace", [expr, X, MANY])
    return expr


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle()


def text_calls(oracle: Oracle) -> Iterator[Expr]:
    """Every function that makes TEXT, on columns and constants of text."""
    columns: list[Expr] = [oracle.ref("t"), oracle.ref("t2")]
    others: list[Expr] = [*columns, Literal(TEXT, "a"), Literal(TEXT, "éé日本語"), Literal(TEXT, None)]
    for name, function in FUNCTIONS.items():
        if name == "reverse":  # DuckDB keeps what is seen as one character together
            continue
        for count in range(function.least, min(function.most, 3) + 1):
            for args in itertools.product(columns[:1], *[others] * (count - 1)):
                yield from _typed(name, list(args))
    for condition in (oracle.ref("f"), resolve("eq", columns)):
        yield from _typed("case", [condition, columns[0], others[3]])
        yield from _typed("case", [condition, others[3], columns[1]])
    for start, length in itertools.product((-3, 1, 2), (None, 1, 9)):
        numbers = [Literal(BIGINT, n) for n in (start, length) if n is not None]
        yield from _typed("substr", [columns[0], *numbers])
    for name in ("b", "d", "m", "s", "y", "f"):
        yield cast(oracle.ref(name), TEXT)


def _typed(name: str, args: list[Expr]) -> Iterator[Expr]:
    try:
        call = resolve(name, args)
    except InvalidInput:
        return
    if call.type == TEXT and isinstance(call, Call):
        yield call


@in_parts(3)
def test_a_result_longer_than_a_value_is_an_error_and_any_other_is_duckdbs(oracle: Oracle, part: slice) -> None:
    most = 11
    calls = list(text_calls(oracle))
    assert {call.name for call in calls if isinstance(call, Call)} >= {
        *("lower", "upper", "substr", "trim", "ltrim", "rtrim", "concat", "concat_op", "replace", "cast"),
        *("case", "coalesce", "nullif", "greatest", "least"),
    }
    calls, cut = calls[part], 0
    for call, theirs in zip(calls, oracle.theirs(calls), strict=True):
        mine = evaluate(call, Scope(oracle.columns, oracle.rows, texts=TextLimits(most, 1 << 16)))
        check(mine, TEXT, oracle.rows)
        over = [text is not None and len(text.encode()) > most for text in canonical(theirs)]  # type: ignore[attr-defined]
        wanted = [None if long else text for text, long in zip(canonical(theirs), over, strict=True)]
        assert canonical(mine) == wanted, call
        assert (mine.error is not None and mine.error.any()) == any(over), call
        assert mine.error is None or mine.error.tolist() == over, call
        cut += any(over)
    assert cut > 60 // 3


@in_parts(4)
def test_parts_give_what_the_whole_gives(oracle: Oracle, part: slice) -> None:
    """Where the texts of all rows do not fit together, and those of some do."""
    for call in list(text_calls(oracle))[part]:
        whole = resolve("length", [call])
        limits = TextLimits(MIB, 1_500)
        mine = evaluate(whole, Scope(oracle.columns, oracle.rows, texts=limits))
        assert canonical(mine) == canonical(oracle.mine(whole)), call


def test_letters_that_grow_by_half() -> None:
    grown = evaluate(resolve("lower", [A]), Scope((texts("Ⱥ" * 6, "Ⱥ" * 4),), 2, texts=TextLimits(12, 1000)))
    assert grown.to_list() == [None, "ⱥ" * 4]
    assert grown.error is not None
    assert grown.error.tolist() == [True, False]


@pytest.mark.seeded("F1: a clause whose text grows without end ends the process, and each start after it")
def test_a_clause_that_multiplies_is_an_error_of_its_rows() -> None:
    found = evaluate(resolve("length", [thrice(A)]), Scope((texts("x", "y", "", None, "x" * 999),), 5))
    assert found.to_list() == [None, 1, 0, None, None]
    assert found.error is not None
    assert found.error.tolist() == [True, False, False, False, True]


def test_a_replacement_from_a_column_is_counted_too() -> None:
    scope = Scope((texts("xx", "xx", "y"), texts("z" * 700_000, "z", "z" * 700_000)), 3)
    found = evaluate(resolve("length", [resolve("replace", [A, X, B])]), scope)
    assert found.to_list() == [None, 2, 1]
    assert found.error is not None
    assert found.error.tolist() == [True, False, False]


@pytest.mark.parametrize(
    "name", swept(["replace", "concat", "concat_op", "upper", "substr", "greatest", "coalesce", "case"], fast=(0, 1, 6))
)
def test_memory_is_bounded_whatever_the_rows_are(name: str) -> None:
    """256 rows that each make some 100 kB: 25 MB at once, were they made together."""
    rows, long, limits = 256, Literal(TEXT, "é" * 50_000), TextLimits(MIB, 4 * MIB)
    made = {
        "replace": resolve("replace", [A, X, long]),
        "coalesce": resolve("coalesce", [B, long]),
        "case": resolve("case", [Literal(BOOLEAN, True), long, A]),
        "greatest": resolve("greatest", [A, long]),
    }
    more = resolve("replace", [A, X, long])
    made |= {call: resolve(call, [more, A]) for call in ("concat", "concat_op")}
    made |= {"upper": resolve("upper", [more]), "substr": resolve("substr", [more, Literal(BIGINT, 2)])}
    columns = (texts(*["x"] * rows), texts(*[None] * rows))
    pool, before = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        found = evaluate(resolve("length", [made[name]]), Scope(columns, rows, texts=limits))
        assert len(set(found.to_list())) == 1
        with pytest.raises(TooMuchText):
            evaluate(made[name], Scope(columns, rows, texts=limits))
    finally:
        pa.set_memory_pool(before)
    assert (pool.max_memory() or 0) < 3 * limits.together


def test_one_row_that_needs_more_than_all_may_have_is_an_error() -> None:
    parts = [resolve("concat", [A, Literal(TEXT, str(k))]) for k in range(70)]
    total = resolve("length", [parts[0]])
    for part in parts[1:]:
        total = resolve("add", [total, resolve("length", [part])])
    found = evaluate(total, Scope((texts("x" * (MIB - 2), "y"),), 2))
    assert found.error is not None
    assert found.error.tolist() == [True, False]
    assert found.values[1] == 60 * 3 + 10 * 2


def test_a_statement_does_not_make_text_when_it_is_registered() -> None:
    soup = LocalPSoup()
    soup.execute("CREATE STREAM p (a TEXT, n BIGINT)")
    inner = "'xxx'"
    for _ in range(6):
        inner = f"replace({inner}, 'x', '{'x' * 2000}')"
    query = soup.register(f"SELECT n FROM p WHERE length({inner}) = 7 OR a = 'here'")
    soup.push("p", pa.table({"a": ["here", "x"], "n": [1, 2]}))
    assert soup.invoke(query).to_table().to_pydict() == {"n": [1]}
    assert soup.invoke(query).completeness.errors == 1


POISON = f"length(replace(replace(replace(a,'x','{MANY.value}'),'x','{MANY.value}'),'x','{MANY.value}')) = 7"


SAME = r"\0" * 2_000
POISONS = [
    POISON,
    "length(concat(a, repeat(repeat(replace(a, '1234567', ''), 1000000000), 1000000000))) = 7",
    "length(lpad(a, if(a = 'x', 1000000000, 7), '日')) = 7",
    f"length(regexp_replace(rpad(a, if(a = 'x', 999, 7), 'y'), '[xy]', '{SAME}', 'g')) = 7",
]


@pytest.mark.parametrize("poison", swept(POISONS, fast=3), ids=["replace", "repeat", "lpad", "regexp_replace"])
def test_a_poisoned_clause_counts_errors_and_everybody_else_goes_on(poison: str) -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=64, piece_rows=64))
    soup.execute("CREATE STREAM p (a TEXT, n BIGINT)")
    early = soup.register(f"SELECT n FROM p WHERE {poison}")
    other = soup.register("SELECT n FROM p WHERE a = 'x'")
    soup.push("p", pa.table({"a": ["x", "1234567"] * 100, "n": range(200)}))
    late = soup.register(f"SELECT n FROM p WHERE {poison} AND n >= 0")
    for query in (early, late):
        answer = soup.invoke(query)
        assert answer.to_table().column("n").to_pylist() == list(range(1, 200, 2))
        assert answer.completeness.errors == 100
    soup.maintain()
    soup.check()
    assert soup.invoke(late).completeness.errors == 100
    assert soup.invoke(other).matched == 100


def test_answers_are_cut_where_their_texts_do_not_fit() -> None:
    soup = LocalPSoup(EngineConfig(text_bytes=1_000, evaluation_bytes=20_000))
    soup.execute("CREATE STREAM p (a TEXT, n BIGINT)")
    plain = soup.register("SELECT n, replace(a, 'x', 'xxxxxxxxx') AS long, a || '!' AS more FROM p")
    ordered = soup.register("SELECT n, replace(a, 'x', 'xxxxxxxxx') AS long FROM p ORDER BY upper(a), n")
    soup.push("p", pa.table({"a": ["x" * 110, "x" * 112] * 50, "n": range(100)}))
    batches = list(soup.invoke(plain).batches())
    assert len(batches) > 3
    table = pa.Table.from_batches(batches)
    assert table.column("n").to_pylist() == list(range(100))
    assert table.column("long").to_pylist() == ["x" * 990, None] * 50
    assert table.column("more").to_pylist() == ["x" * 110 + "!", "x" * 112 + "!"] * 50
    assert soup.invoke(ordered).to_table().column("n").to_pylist() == [*range(0, 100, 2), *range(1, 100, 2)]


def test_a_row_that_selects_too_much_is_refused() -> None:
    soup = LocalPSoup(EngineConfig(text_bytes=1_000, evaluation_bytes=20_000))
    soup.execute("CREATE STREAM p (a TEXT)")
    query = soup.register("SELECT " + ", ".join(f"a || '{k}' AS a{k}" for k in range(30)) + " FROM p")
    soup.push("p", pa.table({"a": ["x" * 900]}))
    with pytest.raises(ResourceExhausted, match=r"of text of one row, and 20,000 is the most; select less"):
        soup.invoke(query).to_table()


def test_many_derived_texts_of_one_tuple_are_computed_one_after_the_other() -> None:
    soup = LocalPSoup(EngineConfig(text_bytes=1_000, evaluation_bytes=5_000))
    soup.execute("CREATE STREAM p (a TEXT)")
    queries = [soup.register(f"SELECT a FROM p WHERE a || '{k}' = '{'x' * 900}{k % 3}'") for k in range(20)]
    soup.push("p", pa.table({"a": ["x" * 900] * 3}))
    found = [soup.invoke(query).matched for query in queries]
    assert found == [3, 3, 3, *[0] * 17]
    late = soup.register("SELECT a FROM p WHERE " + " OR ".join(f"a || '{k}' = 'x'" for k in range(20)))
    assert soup.invoke(late).matched == 0


def test_places_of_letters_are_found_in_any_script() -> None:
    column = texts("aé日👨x", "", "abc", None, "日本語日本語")
    scope = Scope((column,), 5)
    for start, length in itertools.product((-7, -2, 1, 2, 9), (1, 2, 50)):
        call = resolve("substr", [A, Literal(BIGINT, start), Literal(BIGINT, length)])
        alone = [evaluate(call, scope.slice(row, row + 1)).to_list()[0] for row in range(5)]
        assert evaluate(call, scope).to_list() == alone
    assert np.diff(column.values).tolist() == [11, 0, 3, 0, 18]
