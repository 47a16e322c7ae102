"""Answers, queries and streams in a notebook: as tables, as Arrow for other libraries, as rows and columns."""

from __future__ import annotations

import dataclasses
import datetime as dt
from decimal import Decimal
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow as pa
import pytest

import psoup_client
from psoup_client import Answer, Client, Completeness, Query
from psoup_testing.services import typical_use
from psoup_testing.services.fixtures import numbers

COMPLETE = Completeness(
    sequence=1, now=None, watermark=None, begin=None, end=None, final=False, late=0, ahead=0, pending=0,
    truncated=False, errors=0, window_kind="snapshot",
)  # fmt: skip


class _Cells(HTMLParser):
    """The texts of all cells, and whether every tag that opens closes again."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[str] = []
        self.tags: set[str] = set()
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            self.cells[-1] += data


def _answer(**columns: pa.Array) -> Answer:
    return Answer(pa.table(columns), COMPLETE)


def test_typical_use(client: Client, tmp_path: Path) -> None:
    name = f"typical{next(numbers)}"
    answer, quantities = typical_use.session(client, name)
    assert quantities == [3, None]
    assert answer.schema.names == ["sym", "price", "qty"]
    assert typical_use.joined(client, name) == ["a sliding", "b landmark"]
    assert len(typical_use.asked(client, name)) == 2
    assert typical_use.many(client, name) == 3
    assert list(typical_use.matched(client, name, f"{name}-all").query_keys) == [f"{name}-all"]
    assert typical_use.service(client) >= client.last_sequence
    with typical_use.connect(client.address) as other:
        assert other.query(key=f"{name}-all") == client.query(key=f"{name}-all")
    assert typical_use.files(client, name, tmp_path) == 0
    assert typical_use.pushes(client, name) == 3


def test_an_answer_shows_twenty_rows_and_escapes_what_is_in_them() -> None:
    words = pa.array(["<script>alert(1)</script>", None, "x" * 300, *map(str, range(30))])
    times = pa.array([dt.datetime(2013, 7, 4, 12, tzinfo=dt.UTC)] * 33, pa.timestamp("us", tz="UTC"))
    html = _answer(**{"a<b": words, "t": times, "d": pa.array([Decimal("1.50")] * 33)})._repr_html_()
    shown = _Cells(html)
    assert not shown.open
    assert "script" not in shown.tags
    assert shown.cells[:6] == ["a<b", "t", "d", "<script>alert(1)</script>", "2013-07-04 12:00:00Z", "1.50"]
    assert shown.cells[6] == "NULL"
    assert shown.cells[9] == "x" * 200 + "…"
    assert len(shown.cells) == 3 * 21
    assert "33 rows × 3 columns, the first 20 rows shown" in html
    assert COMPLETE.sentence() in html


def test_an_answer_is_indexed_as_rows_and_columns() -> None:
    answer = _answer(x=pa.array([1, 2, 3]), s=pa.array(["a", "b", None]))
    assert answer.shape == (3, 2)
    assert answer[0] == {"x": 1, "s": "a"}
    assert answer[-1] == {"x": 3, "s": None}
    assert answer["x"].to_pylist() == [1, 2, 3]
    assert answer[1:].rows() == [(2, "b"), (3, None)]
    assert answer[::-1].rows() == [(3, None), (2, "b"), (1, "a")]
    assert answer[1:].completeness is answer.completeness
    with pytest.raises(IndexError, match="3: the answer has 3 rows, counted from 0"):
        answer[3]
    with pytest.raises(TypeError, match="give a number or a slice for rows"):
        answer[1.5]  # type: ignore[call-overload]
    with pytest.raises(KeyError, match="'y': the answer has no such column; its columns are x, s"):
        answer["y"]
    twice = Answer(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"]), COMPLETE)
    assert (twice["x"].to_pylist(), twice["x_1"].to_pylist()) == ([1], [2])


def test_other_libraries_read_an_answer_through_arrow() -> None:
    answer = _answer(x=pa.array([1, None, 3]), s=pa.array(["a", "b", None]))
    assert polars.DataFrame(answer).rows() == answer.rows()
    assert pa.table(answer) == answer.to_arrow()
    assert duckdb.sql("SELECT sum(x) FROM answer").fetchall() == [(4,)]


def test_pandas_has_nullable_types_by_request() -> None:
    answer = _answer(i=pa.array([1, None]), f=pa.array([0.5, None]), b=pa.array([True, None]), s=pa.array(["a", None]))
    assert answer.to_pandas()["i"].dtype == "float64"
    frame = answer.to_pandas(nullable=True)
    assert [str(kind) for kind in frame.dtypes] == ["Int64", "Float64", "boolean", "string"]
    assert frame["i"].tolist() == [1, pandas.NA]
    assert answer.to_pandas(strings_to_categorical=True)["s"].dtype == "category"


def test_queries_and_streams_are_shown(client: Client) -> None:
    name = f"shown{next(numbers)}"
    stream = client.create_stream(f"CREATE STREAM {name} (x BIGINT NOT NULL, s TEXT)")
    query = client.register(f"SELECT x FROM {name} WHERE x < 3", key=f"<{name}>", labels={"user": "u&1"})
    assert query == Query(client, query.id)
    assert len({query, Query(client, query.id)}) == 1
    assert query != query.id
    cells = _Cells(query._repr_html_()).cells
    assert cells[:8] == ["query", query.id, "key", f"<{name}>", "labels", "user=u&1", "sql", query.sql]
    assert _Cells(Query(client, query.id)._repr_html_()).cells == ["query", query.id]
    assert _Cells(client.queries(name)._repr_html_()).cells[4:] == [query.id, f"<{name}>", "user=u&1", query.sql]
    assert _Cells(stream._repr_html_()).cells[3:9] == ["x", "BIGINT", "NOT NULL", "s", "TEXT", ""]
    assert client.streams()._repr_html_().count("<tr>") == min(20, len(client.streams())) + 1
    assert "x &lt; 3" in query.explain()._repr_html_()
    assert repr(query.explain()) == f"<Explanation: query {query.id} on stream {name} (system time)>"
    pushed = client.push(name, {"x": [1, 5], "s": ["a", "b"]})
    assert repr(stream).endswith("0 tuples, 0 queries, next tuple ID 0, no watermark>")
    now = client.stream(name.upper(), wait_for=pushed.sequence)
    assert (now.next_tuple_id, client.tuple_ids(pushed)) == (2, range(2))
    assert f"2 tuples, 1 query, next tuple ID 2, watermark {now.watermark}>" in repr(now)
    why = client.why(query, 1)._repr_html_()
    assert _Cells(why).cells[4:7] == ["✗", "WHERE", "x < 3"]
    assert "<p>Kept out by x &lt; 3</p>" in why
    assert "1 match" in client.match(name, {"x": [2], "s": [None]})._repr_html_()
    for condition, shown in (("= 'b'", "\"s\" = 'b'"), ("IN ('b', 'a')", "\"s\" in 'a' or 'b'")):
        assert shown in str(client.register(f"SELECT x FROM {name} WHERE s {condition}").explain())


def test_every_result_is_shown() -> None:
    values = [getattr(psoup_client, name) for name in psoup_client.__all__]
    results = [kind for kind in values if dataclasses.is_dataclass(kind) and not kind.__name__.endswith("Options")]
    assert [kind.__name__ for kind in results if not hasattr(kind, "_repr_html_")] == []


def test_what_a_service_holds_is_shown_in_twenty_rows(client: Client) -> None:
    name = f"held{next(numbers)}"
    client.create_stream(f"CREATE STREAM {name} (x BIGINT)")
    queries = client.register_many(f"SELECT x FROM {name} WHERE x > ?", [(n,) for n in range(30)])
    client.register(f"SELECT x FROM {name} WHERE x > 5", key="<five>")
    pushed = client.push(name, {"x": list(range(30))})
    for shown, words in (
        (queries, f"{queries[0].id}|30 queries, the first 20 shown"),
        (queries[::10], "3 queries"),
        (client.queries(name)[5:], "26 queries, the first 20 shown"),
        (client.queries(name)[:0], "0 queries"),
        (client.top_queries(stream=name, limit=25), "cpu share|25 queries, the first 20 shown"),
        (client.results(name), "<five>: 24|30 tuples × 31 queries, the first 20 tuples shown|May still grow"),
        (client.results(name, last=2), "2 tuples × 31 queries"),
        (client.results(name).completeness, "May still grow; nothing late|sequence"),
        (client.match(name, {"x": [29]}), "30 matches, the first 20 shown|1 row looked at"),
        (client.why(queries[0], 3), "All conditions are met"),
        (pushed, "accepted|30"),
        (client.info(), "incarnation|memory|bytes"),
        (client.memory(), "structure|tuples|bytes used"),
        (client.describe(name), f"Stream {name}|1 column|BIGINT"),
    ):
        html = shown._repr_html_()
        assert not _Cells(html).open
        assert len(repr(shown)) < 120 or isinstance(shown, list | psoup_client.PushResult)
        assert html.count("<tr>") <= 21 + 12 * html.count("<tbody><tr><th")
        assert [word for word in words.split("|") if escape(word) not in html] == []


def test_a_join_shows_its_sources(client: Client) -> None:
    name = f"joined{next(numbers)}"
    client.create_stream(f"CREATE STREAM {name} (x BIGINT)")
    query = client.register(f"SELECT a.x FROM {name} a JOIN {name} b ON a.x = b.x WHERE a.x < 5")
    rows = [cells.split("<td") for cells in query.invoke().completeness._repr_html_().split("<tr>")]
    assert [row[1].partition(">")[2].partition("<")[0] for row in rows[-2:]] == ["a", "b"]
    assert _Cells(query._repr_html_()).cells[-12:-9] == ["a", name, f"FROM {name} WHERE x < 5"]
    assert "more line" not in query.explain()._repr_html_()


def test_slices_keep_their_kind(client: Client) -> None:
    name = f"cut{next(numbers)}"
    client.create_stream(f"CREATE STREAM {name} (x BIGINT)")
    made = client.register_many(f"SELECT x FROM {name} WHERE x > ?", [(n,) for n in range(10)])
    listed = client.queries(name)
    assert type(listed[2:5]) is type(listed)
    assert listed[2:5] == list(made)[2:5]
    for step in (slice(None, None, 3), slice(None, None, -1), slice(8, 2, -2)):
        assert type(made[step]) is type(made)
        assert made[step] == list(made)[step]
    assert made[::-1][::-1] == made


def test_an_answer_in_pieces_is_read_through_arrow(client: Client) -> None:
    name = f"pieces{next(numbers)}"
    client.create_stream(f"CREATE STREAM {name} (x BIGINT NOT NULL)")
    client.push(name, {"x": list(range(100_000))})
    with client.register(f"SELECT x FROM {name}").stream() as answer:
        reader = pa.RecordBatchReader.from_stream(answer)
        assert sum(batch.num_rows for batch in reader) == 100_000
