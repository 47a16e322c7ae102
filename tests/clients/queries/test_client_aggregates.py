"""Aggregates as clients see them: types of up to 38 digits, EXPLAIN, blocks, the shell, the same after a restart."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from psoup_client import Client, InvalidStatement
from psoup_storage import open_store
from psoup_testing.services.command import Psoup
from psoup_testing.services.threaded_service import serving

MakeStream = Callable[[str], str]
MOST = 2**63 - 1
ROWS = {"sym": ["a", "b", "a", None], "qty": [MOST, 3, MOST, -1], "price": ["1.50", "2.25", "0.01", None]}
COLUMNS = "(sym TEXT, qty BIGINT, price DECIMAL(9,2))"
GROUPS = "SELECT sym, count(*) AS n, sum(qty) AS total, sum(price) * 2 AS twice FROM {} GROUP BY sym HAVING total > 0"
TABLE = [("a", 2, Decimal(2 * MOST), Decimal("3.02")), ("b", 1, Decimal(3), Decimal("4.50"))]


def test_sums_have_up_to_38_digits_everywhere(client: Client, make_stream: MakeStream) -> None:
    stream = make_stream(COLUMNS)
    client.push(stream, ROWS)
    query = client.register(GROUPS.format(stream))
    assert [(column.name, column.type) for column in query.info.columns] == [
        ("sym", "TEXT"),
        ("n", "BIGINT"),
        ("total", "DECIMAL(38,0)"),
        ("twice", "DECIMAL(38,2)"),
    ]
    answer = query.invoke()
    assert answer.rows() == TABLE and client.ask(GROUPS.format(stream)).rows() == TABLE
    assert answer.to_arrow().schema.field("twice").type == pa.decimal128(38, 2)
    assert str(2 * MOST) in answer._repr_html_()
    assert query.invoke(as_of="1970-01-01").rows() == []


def test_explain_shows_the_table_of_groups(client: Client, make_stream: MakeStream) -> None:
    stream = make_stream(COLUMNS)
    query = client.register(GROUPS.format(stream) + " ORDER BY n DESC LIMIT 3")
    explained = query.explain()
    assert [node.operator for node in explained.nodes] == ["limit", "sort", "project", "having", "aggregate", "source"]
    aggregate = explained.nodes[4]
    assert aggregate.text == "Aggregate count(*), sum(qty), sum(price) BY sym"
    assert "Having (sum(qty) > 0)" in str(explained)


def test_a_block_counts_for_each_row_of_values(client: Client, make_stream: MakeStream) -> None:
    stream = make_stream(COLUMNS)
    client.push(stream, ROWS)
    queries = client.register_many(
        f"SELECT count(*) AS n, max(qty) AS m FROM {stream} WHERE sym = ? HAVING count(*) < 3", [["a"], ["b"], ["c"]]
    )
    assert [query.invoke().rows() for query in queries] == [[(2, MOST)], [(1, 3)], [(0, None)]]
    assert len({query.info.clause for query in queries}) == 3


def test_groups_from_the_shell(psoup: Psoup, client: Client, make_stream: MakeStream) -> None:
    stream = make_stream(COLUMNS)
    client.push(stream, ROWS)
    query = psoup("register", GROUPS.format(stream)).out.strip()
    answer = psoup("invoke", query)
    assert answer.out.splitlines()[1] == f'"a",2,{2 * MOST},3.02'
    assert psoup("ask", GROUPS.format(stream)).out == answer.out
    assert psoup("invoke", query, "--json").rows[0]["total"] == str(2 * MOST)
    assert "Aggregate count(*), sum(qty)" in psoup("explain", query).out
    refused = psoup("register", f"SELECT sym, count(*) FROM {stream}")
    assert refused.code == 1 and "hint: GROUP BY sym, or say which value: any_value(sym)" in refused.err


def test_a_restart_binds_the_same(tmp_path: Path) -> None:
    texts = [f"{GROUPS.format('t')} AND count(*) > {n}" for n in range(3)]  # a form: the third is of its template
    with serving(store=open_store(str(tmp_path), reserve_bytes=0)) as service, Client(service.address) as client:
        client.execute(f"CREATE STREAM t {COLUMNS}")
        client.push("t", ROWS)
        queries = [client.register(text) for text in texts]
        queries += client.register_many("SELECT sum(qty) AS s FROM t WHERE sym = ? AND qty < ?", [["a", 9], ["b", 9]])
        before = [(query.info, query.invoke().rows()) for query in queries]
    with serving(store=open_store(str(tmp_path), reserve_bytes=0)) as service, Client(service.address) as client:
        again = [client.query(info.query_id) for info, _ in before]
        after = [(query.info, query.invoke().rows()) for query in again]
    assert after == before and before[0][1] == TABLE and before[3][1] == [(None,)]


def test_a_wrong_aggregate_says_where(client: Client, make_stream: MakeStream) -> None:
    stream = make_stream(COLUMNS)
    with pytest.raises(InvalidStatement, match="sum needs a number, not TEXT") as caught:
        client.register(f"SELECT sum(sym) FROM {stream}")
    assert (caught.value.line, caught.value.column) == (1, 8)
