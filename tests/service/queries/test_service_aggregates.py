"""Aggregates as clients see them: invoked in every way, in pages, explained, over a join, refused, after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from psoup_client import Client, ResourceExhausted
from psoup_proto.v1 import queries_pb2
from psoup_service.process.settings import Settings
from psoup_storage import DurableStore
from psoup_testing.services.threaded_service import serving

SQL = "SELECT k, count(*) AS n, sum(v) AS total, avg(x) AS mean FROM {} GROUP BY k HAVING count(*) > 1 ORDER BY n DESC"


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with serving(Settings(port=0, group_rows=1_000)) as service, Client(service.address) as connected:
        yield connected


def _stream(client: Client, name: str, rows: int = 100) -> None:
    client.create_stream(f"CREATE STREAM {name} (k BIGINT, v DECIMAL(9,2), x DOUBLE)")
    numbers = range(rows)
    columns: dict[str, list[Any]] = {
        "k": [n % 7 if n % 10 else None for n in numbers],
        "v": [Decimal(n) / 4 for n in numbers],
        "x": [n / 2 for n in numbers],
    }
    values = pa.array(columns["v"], pa.decimal128(9, 2))
    client.push(name, pa.table({"k": columns["k"], "v": values, "x": columns["x"]}))


def _wanted(rows: int = 100) -> list[dict[str, Any]]:
    groups: dict[int | None, list[int]] = {}
    for n in range(rows):
        groups.setdefault(n % 7 if n % 10 else None, []).append(n)
    shown = [
        {"k": key, "n": len(ns), "total": Decimal(sum(ns)) / 4, "mean": sum(ns) / 2 / len(ns)}
        for key, ns in groups.items()
    ]
    shown.sort(key=lambda row: (-row["n"], row["k"] is None, row["k"]))
    return shown


def test_an_aggregate_is_answered_in_every_way(client: Client) -> None:
    _stream(client, "ways")
    query, wanted = client.register(SQL.format("ways"), key="by k"), _wanted()
    assert query.invoke().to_arrow().to_pylist() == wanted
    assert client.ask(SQL.format("ways")).to_arrow().to_pylist() == wanted
    assert [answer.to_arrow().to_pylist() for answer in client.invoke_many([query, query])] == [wanted, wanted]
    with query.stream() as pieces:
        assert pa.Table.from_batches(list(pieces)).to_pylist() == wanted
    assert query.invoke(window="BEGIN (NOW - 10 ROWS)").to_arrow().to_pylist()[0]["n"] == 2
    assert (
        query.invoke(window="BEGIN (TIMESTAMP '1999-01-01') END (TIMESTAMP '1999-01-02')").to_arrow().to_pylist() == []
    )
    assert [len(group) for group in client.matches_many("ways", [0, 1])] == [1, 1]
    assert "All conditions are met" in repr(client.why(query, 3))


def test_pages_are_of_rows_of_groups(client: Client) -> None:
    _stream(client, "paged")
    query = client.register(SQL.format("paged"))
    rows, token = [], ""
    while True:
        request = queries_pb2.InvokeRowsRequest(query_id=query.id, page_size=3, page_token=token)
        page = client.connection.queries.InvokeRows(request)
        rows += [row.values[1].bigint_value for row in page.rows]
        token = page.next_page_token
        if not token:
            break
    assert rows == [row["n"] for row in _wanted()]


def test_explain_says_how_many_groups_there_are(client: Client) -> None:
    _stream(client, "told")
    query = client.register("SELECT k, sum(v) AS s, avg(v) AS a, count(*) AS c FROM told WHERE v > 1 GROUP BY k")
    (node,) = [node for node in query.explain().nodes if node.operator == "aggregate"]
    assert {"keys": 1, "measures": 3, "states": 2, "groups": 8, "rows": 95}.items() <= node.figures.items()
    assert "8 groups of 95 tuples" in str(query.explain())


def test_more_groups_than_an_answer_may_show_are_refused_by_name(client: Client) -> None:
    client.create_stream("CREATE STREAM wide (k BIGINT)")
    client.push("wide", pa.table({"k": range(2_000)}))
    with pytest.raises(ResourceExhausted, match="group_rows") as refused:
        client.ask("SELECT k, count(*) AS c FROM wide GROUP BY k")
    assert refused.value.reason == "GROUP_BUDGET"
    assert client.ask(
        "SELECT k, count(*) AS c FROM wide GROUP BY k ORDER BY k DESC LIMIT 1"
    ).to_arrow().to_pylist() == [{"k": 1_999, "c": 1}]


def test_aggregates_over_a_join(client: Client) -> None:
    _stream(client, "lefts")
    _stream(client, "rights", 20)
    found = client.ask(
        "SELECT l.k, count(*) AS n, max(r.x) AS most FROM lefts l, rights r WHERE l.k = r.k GROUP BY l.k"
    )
    left, right = ({n: [i for i in range(rows) if i % 10 and i % 7 == n] for n in range(7)} for rows in (100, 20))
    assert found.to_arrow().to_pylist() == [
        {"k": k, "n": len(left[k]) * len(right[k]), "most": max(right[k]) / 2} for k in range(7) if right[k]
    ]


def test_a_restart_changes_no_aggregate(tmp_path: Path) -> None:
    with serving(store=DurableStore(tmp_path)) as service, Client(service.address) as client:
        _stream(client, "kept")
        query = client.register(SQL.format("kept")).id
        before = client.query(query).invoke().to_arrow().to_pylist()
    with serving(store=DurableStore(tmp_path)) as service, Client(service.address) as client:
        assert client.query(query).invoke().to_arrow().to_pylist() == before == _wanted()
