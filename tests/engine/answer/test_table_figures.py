"""Figures of tables: the rows that hold are counted, not their earlier versions, nor deletions."""

from __future__ import annotations

import pyarrow as pa
import pytest

from psoup.answer.check import check
from psoup.answer.figures.table_figures import figures_by_table, table_figures
from psoup.config import EngineConfig
from psoup.errors import SqlError
from psoup.local import LocalPSoup


def test_rows_that_hold_are_counted() -> None:
    local = LocalPSoup(config=EngineConfig(chunk_rows=64))
    assert table_figures(local.engine.snapshot()) == {"tables": 0, "table_versions": 0, "table_rows": 0}
    local.execute("CREATE STREAM s (id BIGINT)")
    local.execute("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    local.execute("CREATE TABLE u (id BIGINT PRIMARY KEY)")
    local.push("s", pa.table({"id": [1, 2]}))
    local.push("t", pa.table({"id": range(100)}))
    local.push("t", pa.table({"id": range(50, 150)}))
    local.push("t", pa.table({"id": range(10), "_deleted": [True] * 10}))
    local.push("u", pa.table({"id": [1, 1, 1]}))
    assert table_figures(local.engine.snapshot()) == {"tables": 2, "table_versions": 213, "table_rows": 141}
    sizes = [("default", "t", 140, 210), ("default", "u", 1, 3)]
    assert figures_by_table(local.engine.snapshot()) == sizes
    earlier = local.engine.snapshot()
    local.push("t", pa.table({"id": range(150), "_deleted": [True] * 150}))
    assert table_figures(local.engine.snapshot())["table_rows"] == 1
    assert table_figures(earlier)["table_rows"] == 141


def test_only_the_largest_tables_have_figures_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psoup.answer.figures.table_figures.NAMED_TABLES", 2)
    local = LocalPSoup()
    for size, name in enumerate("dacb"):
        local.execute(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY)")
        local.push(name, pa.table({"id": range(size)}))
    assert [(table, keys) for _, table, keys, _ in figures_by_table(local.engine.snapshot())] == [("b", 3), ("c", 2)]


def test_a_check_counts_the_versions_that_hold() -> None:
    local = LocalPSoup(config=EngineConfig(chunk_rows=64))
    local.execute("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    local.push("t", pa.table({"id": range(100)}))
    local.push("t", pa.table({"id": range(10)}))
    local.push("t", pa.table({"id": range(30), "_deleted": [True] * 30}))
    statement = "SELECT * FROM t WHERE id > 3"
    checked = check(local.engine.snapshot(), statement, tenant=local.tenant, now=0)
    assert [node.figures["tuples_in_window"] for node in checked.nodes if "tuples_in_window" in node.figures] == [70]
    assert local.explain(local.register(statement)).sources[0].tuples_in_window == 70


def test_an_explanation_calls_a_table_a_table() -> None:
    local = LocalPSoup()
    local.execute("CREATE STREAM s (id BIGINT)")
    local.execute("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    alone, joined = local.register("SELECT * FROM t"), local.register("SELECT s.id FROM s JOIN t x ON x.id = s.id")
    assert local.explain(alone).lines("q")[0] == "query q on table t (system time)"
    with pytest.raises(SqlError, match="table 't' has no column 'x'"):
        local.register("SELECT x FROM t")
    lines = local.explain(joined).lines("q")
    assert lines[0] == "query q on stream s, table t AS x" and "  source 2 table t AS x (system time)" in lines
