"""Queries kept as columns answer, are found and go as the same queries kept one by one, whatever happens between."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from psoup.answer.describe import list_queries
from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup_testing.histories.blocks import CREATE, block_of, conditions
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again
from psoup_testing.suite.budget import scaled

COLUMNS = EngineConfig(chunk_rows=64, piece_rows=16, delta_queries=8, columnar_queries=1, shape=EAGER)
ROWS = EngineConfig(chunk_rows=64, piece_rows=16, delta_queries=8, columnar_queries=10**9, shape=EAGER)
DAY = datetime.datetime(2020, 1, 1)


def made(config: EngineConfig) -> LocalPSoup:
    soup = LocalPSoup(config)
    soup.execute(CREATE)
    return soup


def tuples(draw: Any, count: int) -> pa.Table:
    def some(values: list[Any]) -> list[Any]:
        return [draw(st.sampled_from([*values, None])) for _ in range(count)]

    return pa.table({
        "sym": pa.array(some(["", "a", "b", "ab", "é"]), pa.string()), "qty": pa.array(some([-3, 0, 1, 2]), pa.int64()),
        "price": some([0.0, 1.5, float("nan"), float("-inf")]), "amount": pa.array(some([-3, 0, 3]), pa.int64()),
        "at": pa.array(some([DAY]), pa.timestamp("us")), "day": pa.array(some([DAY.date()]), pa.date32()),
        "ok": pa.array(some([True, False]), pa.bool_()),
    })  # fmt: skip


def no_nan(row: tuple[Any, ...]) -> bool:
    """Whether a registration takes the values: a NaN is refused, as what pandas has for a missing value."""
    return all(value == value for value in row)


@settings(max_examples=scaled(16), deadline=None)
@given(st.data())
def test_columns_are_the_queries_one_by_one(data: st.DataObject) -> None:
    draw = data.draw
    parts = draw(st.lists(conditions(), min_size=1, max_size=3))
    where, sources = " AND ".join(text for text, _ in parts), [source for _, own in parts for source in own]
    assume(sources)
    rows = draw(st.lists(st.tuples(*sources).filter(no_nan), min_size=1, max_size=25))
    assume(block_of(where, rows) is not None)
    template = f"SELECT _id FROM s WHERE {where}"
    many, single = made(COLUMNS), made(ROWS)
    standing: list[int] = []
    for _ in range(draw(st.integers(1, 4))):
        table, own = (
            tuples(draw, draw(st.integers(1, 50))),
            draw(st.lists(st.sampled_from(rows), min_size=1, max_size=40)),
        )
        gone = draw(st.lists(st.integers(0, 200), max_size=40, unique=True))
        for soup in (many, single):
            soup.push("s", table)
            ids = list(soup.register_many(template, own))
            for query_id in [query_id for query_id in gone if query_id in {*standing, *ids}]:
                soup.unregister(query_id)
            if len(own) % 2:
                soup.maintain()
        standing = [query_id for query_id in (*standing, *ids) if query_id not in gone]
        check_alike(many, single, standing)


def check_alike(many: LocalPSoup, single: LocalPSoup, standing: list[int]) -> None:
    many.check()
    single.check()
    states = many.admission.state(), single.admission.state()
    tuples = [state.pop("reserved")[0] for state in states]  # type: ignore[index]  # as columns, queries are charged less
    use = [state.pop("use")["default"] for state in states]  # type: ignore[index]
    assert tuples[0] == tuples[1]
    assert (use[0][0], use[0][2]) == (use[1][0], use[1][2])
    assert states[0] == states[1]
    one, two = (list_queries(soup.engine.snapshot(), tenant="default") for soup in (many, single))
    assert [(r.query_id, r.query, r.sqc_id) for r in one] == [(r.query_id, r.query, r.sqc_id) for r in two]
    assert [record.query_id for record in one] == standing
    for query_id in standing:
        assert again(many.invoke, query_id).to_table() == again(single.invoke, query_id).to_table()
        assert many.explain(query_id).source.shared_by == single.explain(query_id).source.shared_by
    view = many.engine.snapshot().stream("s", "default")
    for tuple_id in range(view.first_id, view.next_id, 7):
        assert many.matches("s", tuple_id) == single.matches("s", tuple_id)
