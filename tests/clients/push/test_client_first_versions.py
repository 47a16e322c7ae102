"""First versions of keys that come late, by the SDK and the command: the refused rows are the right ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from psoup_client import Client, RefusedRows, RowsRefused
from psoup_testing.services import fixtures
from psoup_testing.services.command import Psoup

OLD = [{"k": "b", "v": 1, "at": "2026-01-01 00:00:01"}, {"k": "a", "v": 2, "at": "2026-01-01 00:00:05"}]
"""The first version of b, and a version of a that is late. The least time is not refused."""


@pytest.fixture
def table(client: Client) -> str:
    name = f"t{next(fixtures.numbers)}"
    client.create_table(f"CREATE TABLE {name} (k TEXT PRIMARY KEY, v BIGINT, at TIMESTAMP) TIMESTAMP BY at")
    client.upsert(name, [{"k": "a", "v": 1, "at": "2026-01-01 00:00:10"}])
    return name


def shown(client: Client, table: str) -> list[tuple[str, int]]:
    return sorted(client.ask(f"SELECT k, v FROM {table}").rows())


def test_the_late_rows_are_listed_by_their_keys(client: Client, table: str) -> None:
    with pytest.raises(RowsRefused, match=r"row 1: .*and its key has a version") as refused:
        client.upsert(table, OLD)
    assert [row.row for row in refused.value.rows] == [1]
    assert shown(client, table) == [("a", 1)]
    done = client.push(table, OLD, refused="count")
    assert (done.accepted, done.late, done.refused) == (1, 1, RefusedRows(late=(1,)))
    lists = list[RefusedRows]()
    with client.producer(table, on_refused=lists.append) as producer:
        producer.upsert([{**OLD[0], "k": "c"}, OLD[1], {**OLD[0], "k": "d"}])
    assert lists == [RefusedRows(late=(1,))]
    with client.stage(table) as stage:
        stage.add([OLD[1], {**OLD[0], "k": "e"}])
        assert stage.commit().refused == RefusedRows(late=(0,))
    assert shown(client, table) == [("a", 1), ("b", 1), ("c", 1), ("d", 1), ("e", 1)]


def test_late_rows_are_diverted_by_their_keys(client: Client, table: str) -> None:
    done = client.push(table, OLD, refused="divert")
    assert (done.accepted, done.late, done.refused) == (1, 1, RefusedRows(late=(1,)))
    assert client.ask(f"SELECT k, v FROM {table}_late").rows() == [("a", 2)]
    assert shown(client, table) == [("a", 1), ("b", 1)]


@pytest.mark.parametrize("whole", [[], ["--whole"]])
def test_the_file_of_rejects_has_the_late_rows(
    client: Client, table: str, psoup: Psoup, tmp_path: Path, whole: list[str]
) -> None:
    lines = [",".join(map(str, row.values())) for row in OLD]
    (tmp_path / "rows.csv").write_text("\n".join(["k,v,at", *lines, ""]))
    done = psoup("push", table, "rows.csv", "--rejects", "out.csv", *whole)
    assert done.err.startswith("1 row taken") and "1 too late" in done.err
    rejected = (tmp_path / "out.csv").read_text().splitlines()
    assert len(rejected) == 2 and "a,2,2026-01-01 00:00:05" in rejected[1]
    assert shown(client, table) == [("a", 1), ("b", 1)]


def test_followers_and_copies_of_joins_get_first_versions(client: Client, table: str) -> None:
    stream = f"s{next(fixtures.numbers)}"
    client.create_stream(f"CREATE STREAM {stream} (k TEXT, at TIMESTAMP) TIMESTAMP BY at")
    client.push(stream, [{"k": k, "at": "2026-01-01 00:00:03"} for k in "ab"])
    client.heartbeat(stream, "2026-01-01 00:00:20")
    texts = {
        kind: f"SELECT s.k, t.v FROM {stream} s {kind} {table} t AS OF s ON t.k = s.k" for kind in ("JOIN", "LEFT JOIN")
    }
    queries = {kind: client.register(text) for kind, text in texts.items()}
    copies = {kind: client.copy(query) for kind, query in queries.items()}
    for copy in copies.values():
        copy.sync()
    answer = queries["LEFT JOIN"].invoke()
    assert answer.completeness.unknown == 1 and not answer.completeness.final
    assert "1 row may lack a version" in answer.completeness.sentence()
    watched = client.register(f"SELECT k, v FROM {table} WHERE v = 1", key=f"{table}-ones")
    feed = client.follow(table)
    client.upsert(table, [OLD[0]])
    (match,) = next(feed)
    assert (match.tuple["k"], match.tuple["_time"], match.changes) == ("b", match.tuple["at"], ["came"])
    feed.close()
    for kind, copy in copies.items():
        copy.sync()
        assert sorted(copy.rows()) == sorted(queries[kind].invoke().rows()), kind
    assert watched.invoke().rows() == [("a", 1), ("b", 1)]
