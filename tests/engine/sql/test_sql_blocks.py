"""Many rows of values at once: the columns of a block say what each of its queries says by itself."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psoup.errors import InvalidInput
from psoup.model import Kind
from psoup.plan.factors import Factor, Interval, Key, Term
from psoup.plan.standing_query import ClauseColumns, Edges
from psoup.sql import prepare
from psoup.sql.templates.values import columns_of_rows, columns_of_table, numbers_of_text, rows_of_columns
from psoup.values.kinds import ends
from psoup_testing.histories.blocks import block_of, conditions, lookup
from psoup_testing.suite.budget import scaled


def factors(columns: ClauseColumns, row: int) -> set[Factor]:
    """What the columns say of one clause."""
    if columns.never is not None and columns.never[row]:
        return {Factor(())}
    found = set(columns.fixed)
    for term in columns.terms:
        low, high = (None if e is None else boundary(e, row) for e in (term.low, term.high))
        if term.attribute.type.kind is not Kind.TEXT:
            assert (low is None) == (keys_at(term.low, row) == ends(term.attribute.type)[0])
        found.add(Factor((Term(term.attribute, (Interval(low, high),)),)))
    return found


def keys_at(edges: Edges | None, row: int) -> int:
    assert edges is not None
    return int(edges.keys[row])


def boundary(edges: Edges, row: int) -> Key | None:
    if edges.open[row]:
        return None
    key = edges.keys[row]
    if isinstance(key, pa.Scalar):
        return bytes(key.as_py()) + b"\0" * edges.past
    return int(key) + edges.past


SEEN = {"columns": 0, "rows": 0}


@settings(max_examples=scaled(200), deadline=None)
@given(st.lists(conditions(), min_size=1, max_size=4), st.data())
def test_the_columns_of_a_block_say_what_its_queries_say(
    parts: list[tuple[str, list[st.SearchStrategy[object]]]], data: st.DataObject
) -> None:
    where = " AND ".join(text for text, _ in parts)
    sources = [source for _, own in parts for source in own]
    nulls = [data.draw(st.booleans()) for _ in sources]
    row = st.tuples(*(source | st.none() if null else source for source, null in zip(sources, nulls, strict=True)))
    rows = data.draw(st.lists(row, min_size=1, max_size=6))
    template = prepare(f"SELECT * FROM s WHERE {where}", lookup)
    found = block_of(where, rows) if sources else None
    SEEN["rows" if found is None else "columns"] += 1
    if found is None:
        return
    queries = [template.bind(one) for one in rows]
    assert list(found) == queries == found
    columns = found.clauses()
    assert columns.count == len(rows)
    assert [factors(columns, k) for k in range(len(rows))] == [set(query.factors) for query in queries]
    some = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=4))
    taken = found.take(pa.array(some, pa.int64()).to_numpy())
    assert list(taken) == [queries[k] for k in some]
    if some:
        assert [factors(taken.clauses(), k) for k in range(len(some))] == [set(queries[k].factors) for k in some]


def test_most_of_the_cases_were_columns() -> None:
    assert SEEN["columns"] > SEEN["rows"] / 2, SEEN


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("qty = ?", [(1,), (1.5,)]),  # of two types
        ("qty = ?", [(1,), (True,)]),
        ("qty = ?", [(2**63,)]),  # refused when looked at
        ("qty = ?", [("7",)]),
        ("qty = ?", [(1.5,)]),
        ("price = ?", [(2**53 + 1,)]),  # no DOUBLE equals it
        ("amount = ?", [(10**17,)]),
        ("amount = ?", [(Decimal("1.005"),)]),
        ("amount = ?", [(Decimal("1.5"),), (Decimal("1.50"),)]),
        ("sym = ?", [("a\0b",)]),
        ("sym = ?", [("\ud800",)]),
        ("sym = ?", [("x" * 20_000,)]),
        ("sym > ? AND sym >= ?", [("a", "b")]),
        ("qty IN (?, 3)", [(1,)]),
        ("qty <> ?", [(1,)]),
        ("qty = ? OR ok", [(1,)]),
        ("at = ?", [(datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),)]),
        ("at = ?", [("2020-01-01",)]),
        ("ok = ?", [(True,)]),
        ("qty = ? AND FALSE", [(1,)]),
        ("qty = ?", [(1, 2)]),
    ],
)
def test_what_needs_a_look_at_each_value_is_no_block(where: str, rows: list[tuple[object, ...]]) -> None:
    assert block_of(where, rows) is None


def test_a_block_is_a_sequence_of_queries() -> None:
    found = block_of("sym = ? AND qty > ?", [("a", 1), ("it's", -2), (None, 3)])
    assert found is not None
    assert [query.text for query in found] == [
        "SELECT * FROM s WHERE sym = 'a' AND qty > 1",
        "SELECT * FROM s WHERE sym = 'it''s' AND qty > -2",
        "SELECT * FROM s WHERE sym = NULL AND qty > 3",
    ]
    assert found[1] is found[1]
    assert found[1:] == list(found)[1:]
    assert found.rows() == [("a", 1), ("it's", -2), (None, 3)]
    assert found != list(found)[1:]
    with pytest.raises(IndexError):
        found[3]


def test_a_table_off_the_wire_becomes_columns_of_few_types() -> None:
    times = pa.array([datetime.datetime(2020, 1, 1), None])
    table = pa.table({
        "a": pa.array(["x", "y"]).dictionary_encode(), "b": pa.array([1, None], pa.int8()),
        "c": times.cast(pa.timestamp("ms", "Europe/Berlin")), "d": pa.array([1.5, 2], pa.float32()),
        "e": pa.array([Decimal("1.50"), None]), "f": times.cast(pa.date64()), "g": pa.nulls(2),
    })  # fmt: skip
    columns = columns_of_table(table)
    assert [str(column.type) for column in columns] == [
        "string", "int64", "timestamp[us, tz=UTC]", "double", "decimal128(3, 2)", "date32[day]", "null",
    ]  # fmt: skip
    assert rows_of_columns(columns)[0][:2] == ("x", 1)
    for bad, message in ((pa.array([[1]]), "is list<"), (pa.array([b"x"]), "is binary")):
        with pytest.raises(InvalidInput, match=f"column 'p' of parameters {message}"):
            columns_of_table(pa.table({"p": bad}))
    late = pa.array([2**62], pa.int64()).cast(pa.timestamp("us"))
    with pytest.raises(InvalidInput, match="column 'p' of parameters: "):
        rows_of_columns(columns_of_table(pa.table({"p": late})), ["p"])


WRITTEN = {
    "qty": st.integers(-(10**18), 10**18).map(str) | st.sampled_from(["007", "-0", "9223372036854775807"]),
    "price": st.integers(-99, 99).map(str) | st.sampled_from(["1.5", "0.1", "-0.75", "123456.789012345", "1e3", "-0"]),
    "amount": st.integers(-(10**9), 10**9).map(lambda value: f"{value / 100:.2f}") | st.just("12.5"),
}


@settings(max_examples=scaled(200), deadline=None)
@given(st.sampled_from(sorted(WRITTEN)), st.data())
def test_numbers_that_come_as_text_are_what_each_of_them_says(name: str, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.tuples(WRITTEN[name] | st.none()), min_size=1, max_size=5))
    template = prepare(f"SELECT * FROM s WHERE {name} >= ?", lookup)
    columns = columns_of_rows(rows, 1)
    if columns is None:
        return
    block = template.block(tuple(map(numbers_of_text, columns, template.types)))
    if block is not None:
        alone = [template.bind(row) for row in rows]
        assert [query.factors for query in block] == [query.factors for query in alone]
        assert [query.clause for query in block] == [query.clause for query in alone]


@pytest.mark.parametrize(
    ("name", "texts", "read"),
    [
        ("qty", ["1", "-25", None], pa.int64()),
        ("qty", ["1", "2.5"], pa.string()),
        ("qty", ["1", " 2"], pa.string()),
        ("qty", ["1", "1e3"], pa.string()),
        ("qty", ["9223372036854775807"], pa.string()),
        ("amount", ["1.50", "-25.75"], pa.decimal128(10, 2)),
        ("amount", ["1.50", "3.1"], pa.string()),
        ("price", ["1.50", "3", None], pa.float64()),
        ("price", ["nan"], pa.string()),
        ("sym", ["1", "2"], pa.string()),
        ("day", ["2020-01-01"], pa.string()),
    ],
)
def test_text_is_read_as_numbers_where_all_of_it_is_plain(
    name: str, texts: list[str | None], read: pa.DataType
) -> None:
    template = prepare(f"SELECT * FROM s WHERE {name} = ?", lookup)
    assert numbers_of_text(pa.array(texts), template.types[0]).type == read
