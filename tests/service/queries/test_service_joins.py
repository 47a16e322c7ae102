"""Joins as clients see them: one query over several streams, whose sides only jobs may ask for."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path

import duckdb
import grpc
import numpy as np
import pyarrow as pa
import pytest

from psoup.matching.outside import Beforehand
from psoup.model import SECOND
from psoup.sql import create_stream
from psoup.work.clock import VirtualClock
from psoup_client import Client, InvalidRequest, NotFound, Query
from psoup_proto.v1 import queries_pb2
from psoup_service.host.ids import page_token
from psoup_service.servicers.row_pages import _fingerprint
from psoup_storage import open_store
from psoup_storage.formats.covers import Cover, StoredFile, cover_chunk, write_cover
from psoup_storage.formats.matches import ranges_of
from psoup_testing.engines.attachments import write
from psoup_testing.services.joins_served import DEPARTURES, WEATHER, joined_streams
from psoup_testing.services.threaded_service import serving

WINDOW = "BEGIN (NOW - 1 HOUR) END (NOW)"


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with serving() as service, Client(service.address) as connected:
        joined_streams(connected)
        yield connected


def test_a_join_names_its_streams_and_what_it_selects_of_each(client: Client) -> None:
    query = client.register(
        "SELECT f.id, w.wind FROM departures [RANGE 1 HOUR] AS f, weather w WHERE f.origin = w.origin AND w.wind > 20"
    )
    assert query == client.query(query.id)
    assert (query.streams, query.info.stream, query.window_kind) == (("departures", "weather"), "departures", "sliding")
    assert [astuple(source) for source in query.sources] == [
        ("f", "departures", "FROM departures", WINDOW, "sliding", "rows"),
        ("w", "weather", "FROM weather WHERE wind >= 21", "BEGIN (START) END (NOW)", "landmark", "rows"),
    ]
    assert query.info.clause == "FROM departures; FROM weather WHERE wind >= 21; Join f.origin = w.origin"
    assert query.info.window == f"f {WINDOW}, w BEGIN (START) END (NOW)"
    same = client.register(f"SELECT f.id FROM departures f JOIN weather w USING (origin) {WINDOW}")
    assert same.info.window == WINDOW
    for name in ("departures", "weather"):
        assert {query, same} <= set(client.queries(name))
    client.unregister_many([query, same])


def test_pairs_of_a_join_are_kept_if_its_query_asks_for_it(client: Client) -> None:
    """However it is registered; lists, GetQuery and EXPLAIN say so, and other queries are refused."""
    sql = "SELECT f.id FROM departures f JOIN weather w USING (origin)"
    kept = [
        client.register(sql, keep_pairs=True),
        client.register(f"{sql} WHERE f.delay > ?", [3], keep_pairs=True),
        *client.register_many(f"{sql} WHERE f.delay > ?", [(1,), (2,)], keep_pairs=True),
        *client.register_many([f"{sql} WHERE w.wind > 3"], keep_pairs=True, expires_after="9 days"),
    ]
    plain = client.register(sql)
    assert [client.query(query.id).info.keep_pairs for query in (*kept, plain)] == [True] * 5 + [False]
    assert {query for query in client.queries("weather") if query.info.keep_pairs} == set(kept)
    assert kept[-1].info.expires_after == dt.timedelta(days=9)
    (join,) = (node for node in plain.explain().nodes if node.operator == "join")
    assert join.figures["pairs_kept"] == 0
    for one_stream in ("SELECT * FROM weather", "SELECT f.id FROM departures f, weather w LIMIT 3"):
        with pytest.raises(InvalidRequest, match="keep_pairs is for joins of two streams") as refused:
            client.register(one_stream, keep_pairs=True)
        assert refused.value.reason == "KEEP_PAIRS"
    client.unregister_many([*kept, plain])


def test_sides_are_for_jobs_alone(client: Client) -> None:
    plain = client.register("SELECT id FROM departures WHERE delay > 5")
    join = client.register("SELECT f.id FROM departures f, weather w WHERE f.origin = w.origin AND f.delay > 5")
    twice = client.register("SELECT x.id FROM departures x, departures y WHERE x.origin = y.origin AND x.delay > 9")
    assert client.queries("departures") == [plain, join, twice]
    listed = client.queries("departures", include_sides=True)
    assert [(query.info.side_of, query.info.stream) for query in listed] == [
        ("", "departures"),
        (join.id, "departures"),
        (twice.id, "departures"),
        (twice.id, "departures"),
    ]
    assert listed[1].sql == "SELECT * FROM departures AS f WHERE (f.delay > 5) BEGIN (START) END (NOW)"
    assert [query.info.side_of for query in client.queries("weather", include_sides=True)] == [join.id]
    assert len(client.queries(include_sides=True)) == len(client.queries()) + 2
    side = Query(client, listed[1].id)
    for ask in (side.invoke, side.explain, lambda: side.info, side.unregister, lambda: client.why(side, 1)):
        with pytest.raises(NotFound, match=side.id):
            ask()
    with pytest.raises(NotFound, match=side.id):
        client.unregister_many([plain.id, side.id])
    with pytest.raises(InvalidRequest, match="sides have no labels"):
        client.queries(labels={"user": "u"}, include_sides=True)
    with pytest.raises(InvalidRequest, match=r"'SELECT f.id FROM .* is a join \(departures, weather\)") as refused:
        client.results("departures", queries=[join.id])
    assert refused.value.facts["query_id"] == join.id
    with pytest.raises(InvalidRequest, match="its sources are called f, w: say whose tuple it is"):
        client.why(join, 1)
    client.unregister_many([plain, join, twice])
    assert client.queries("weather", include_sides=True) == []


@pytest.mark.seeded("a job is given another side than it asked for")
def test_the_sides_of_a_join_are_covered_by_jobs_of_their_streams(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "data"), reserve_bytes=0)
    with serving(store=store) as service, Client(service.address) as client:
        joined_streams(client, empty=True)
        for name, rows in (("departures", DEPARTURES), ("weather", WEATHER)):
            site = client.begin_attach(name, "past")
            spec = create_stream(site.statement)
            write(Path(site.folder) / name, spec, rows, rows.column(0).cast("int64").to_pylist(), [0])
            client.attach(site, name)
        join = client.register(
            "SELECT a.id FROM departures a, departures b, weather w WHERE a.delay > 5 AND b.delay > 90"
            " AND a.origin = b.origin AND b.origin = w.origin AND w.wind > 3"
        )
        with pytest.raises(InvalidRequest, match="is a join of 'departures', 'weather'; say which"):
            client.begin_cover([join.id])
        with pytest.raises(InvalidRequest, match="queries of streams"):
            client.begin_cover([query.id for query in client.queries(include_sides=True)], include_sides=True)
        with pytest.raises(NotFound):
            client.begin_cover([client.queries("weather", include_sides=True)[0].id])
        for name, count in (("departures", 2), ("weather", 1)):
            listed = client.queries(name, include_sides=True)
            named = client.begin_cover([query.id for query in listed], include_sides=True)
            site = client.begin_cover([join.id], stream=name)
            assert (site.numbers, len(site.sides), site.covered) == ({}, count, 0)
            assert {side.number for side in site.sides} == set(named.numbers.values())
            assert [(side.query, side.statement) for side in site.sides] == [(join.id, query.sql) for query in listed]
            folder, spec = Path(site.folder) / f"found-{name}", create_stream(site.statement)
            folder.mkdir()
            statements = sorted((side.number, side.statement) for side in site.sides)
            for chunk in site.chunks:
                cover_chunk(folder, StoredFile(*astuple(chunk)), spec, Beforehand(spec, statements))
            files = tuple(Path(chunk.path).name for chunk in site.chunks)
            numbers = np.array([number for number, _ in statements], np.int64)
            write_cover(folder, Cover(site.incarnation, ranges_of(numbers), files))
            assert client.cover(site, folder.name)[0] == 1
            assert client.begin_cover([join.id], stream=name).covered == 1


def test_all_ways_to_an_answer_agree(client: Client) -> None:
    sql = (
        "SELECT f.id, w.wind, w._id AS hour FROM departures f JOIN weather w ON f.origin = w.origin AND w.at <= f.at"
        " WHERE f.delay > 10 AND w.wind > 5"
    )
    query = client.register(sql, key="windy")
    answer = query.invoke()
    pairs = duckdb_rows(
        "SELECT f.id, w.wind, w.n AS hour FROM departures f JOIN weather w ON f.origin = w.origin AND w.at <= f.at"
        " WHERE f.delay > 10 AND w.wind > 5 AND f.at <= $now AND w.at <= $now ORDER BY f.id, w.n",
        now=answer.completeness.now,
    )
    assert answer.rows() == pairs and len(pairs) > 50
    assert client.ask(sql).rows() == pairs
    with query.stream() as pieces:
        assert pieces.read_all().rows() == pairs
    with client.ask_stream(sql) as pieces:
        assert pieces.read_all().rows() == pairs
    assert [answer.rows() for answer in client.invoke_many(keys=["windy", "windy"])] == [pairs, pairs]
    assert client.ask(sql.replace("> 10", "> ?"), [10]).rows() == pairs
    assert client.register(sql.replace("> 5", "> $least"), {"least": 5}).invoke().rows() == pairs
    explained = query.explain()
    assert [(node.operator, node.inputs) for node in explained.nodes] == [
        ("project", (1,)),
        ("join", (2, 3)),
        ("source", ()),
        ("source", ()),
    ]
    assert [node.facts["alias"] for node in explained.nodes[2:]] == ["f", "w"]
    assert explained.nodes[2].figures["matches_in_window"] == sum(
        row["delay"] > 10 for row in DEPARTURES.to_pylist()[:56]
    )
    assert "source 2 weather AS w (event time)" in str(explained)
    client.unregister(key="windy")


def test_a_join_says_how_complete_each_of_its_sources_is(client: Client) -> None:
    names = joined_streams(client, "_told")
    query = client.register(f"SELECT f.id FROM {names[0]} [RANGE 10 MINUTES] f, {names[1]} w WHERE f.origin = w.origin")
    told = query.invoke().completeness
    first, second = told.sources
    assert (first.alias, first.stream, second.alias, second.stream) == ("f", names[0], "w", names[1])
    at = [dt.datetime.fromtimestamp(seconds, dt.UTC) for seconds in (2_700, 3_300, 3_540)]
    assert (told.now, told.watermark, told.end) == (at[1], at[1], at[1]), "the weather holds NOW"
    assert (first.watermark, first.begin, second.watermark, second.begin) == (at[2], at[0], at[1], None)
    assert (first.final, second.final, told.final) == (True, False, False)
    assert (first.window_kind, second.window_kind, told.window_kind) == ("sliding", "landmark", "sliding")
    client.push(names[1], WEATHER.slice(0, 3), refused="count")
    told = query.invoke().completeness
    assert (told.late, [source.late for source in told.sources]) == (3, [0, 3])
    assert told.sentence() == (
        "May still grow; NOW waits at 1970-01-01 00:55:00Z for w; w: 3 tuples of the stream came too late and were"
        " refused, all in this window."
    )


def test_a_source_is_given_another_window_by_its_name(client: Client) -> None:
    sql = "SELECT f.id, w.wind FROM departures f, weather w WHERE f.origin = w.origin"
    query = client.register(sql)
    whole = query.invoke().rows()
    hour = {"W": "BEGIN (NOW - 0 SECONDS)", "f": "BEGIN (NOW - 5 MINUTES)"}
    few = query.invoke(windows=hour)
    assert 0 < len(few) < len(whole) and set(few.rows()) < set(whole)
    assert [source.window_kind for source in few.completeness.sources] == ["sliding", "sliding"]
    assert query.invoke(windows={"w": "BEGIN (NOW - 0)"}).rows() != whole
    assert client.ask(sql, windows=hour).rows() == few.rows()
    assert client.invoke(query.id, windows=hour).rows() == few.rows()
    assert [answer.rows() for answer in client.invoke_many([query], windows=hour)] == [few.rows()]
    with query.stream(windows=hour) as pieces, client.ask_stream(sql, windows=hour) as others:
        assert pieces.read_all().rows() == others.read_all().rows() == few.rows()
    assert query.invoke(window="BEGIN (NOW - 5 MINUTES)").rows() != few.rows()
    for options, message in (
        ({"windows": {"x": "BEGIN (NOW)"}}, "has no source 'x'; its sources are called f, w"),
        ({"windows": {"f": "BEGIN (NOW)"}, "window": "BEGIN (NOW)"}, "window or windows, not both"),
        ({"windows": {"f": "x" * 1_001}}, "windows has 1,001 characters"),
        ({"windows": {f"f{n}": "BEGIN (NOW)" for n in range(17)}}, "windows has 17 names; 16 is the most"),
        ({"windows": {"f": "START NOW"}}, "BEGIN"),
    ):
        with pytest.raises(InvalidRequest, match=message):
            query.invoke(**options)  # type: ignore[arg-type]
    client.unregister(query.id)


def test_pages_of_a_join_are_of_the_first_pages_tuples(client: Client) -> None:
    names = joined_streams(client, "_paged")
    sql = f"SELECT f.id, w.wind FROM {names[0]} f, {names[1]} w WHERE f.origin = w.origin{{}}"
    plain, ordered = client.register(sql.format("")), client.register(sql.format(" ORDER BY wind DESC, f.id"))
    wanted = [query.invoke().rows() for query in (plain, ordered)]
    requests = [queries_pb2.InvokeRowsRequest(query_id=query.id, page_size=50) for query in (plain, ordered)]
    pages = [client.connection.queries.InvokeRows(request) for request in requests]
    rows = [_rows(page) for page in pages]
    while pages[0].next_page_token:
        more = [{"at": f"1970-01-01T00:59:{len(rows[0]) % 60:02}Z", "id": 99, "origin": "JFK", "delay": 0}]
        client.push(names[0], more, refused="count")
        client.push(names[1], [{"at": "1970-01-01T01:00:00Z", "origin": "JFK", "wind": 1}])
        for request, page in zip(requests, pages, strict=True):
            request.page_token = page.next_page_token
        pages = [client.connection.queries.InvokeRows(request) for request in requests]
        for seen, page in zip(rows, pages, strict=True):
            seen += _rows(page)
    assert rows == wanted
    for token in ({"ranges": [[0, 2**62], [0, 1]]}, {"ranges": [[0, 1]]}, {"ranges": [[0, 1, 2], [0]]}):
        state = {"now": 0, "offset": 0, "request": _fingerprint(requests[0]), "answer": "", **token}
        requests[0].page_token = page_token("rows", **state)
        with pytest.raises(grpc.RpcError) as refused:
            client.connection.queries.InvokeRows(requests[0])
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def _rows(page: queries_pb2.InvokeRowsResponse) -> list[tuple[int, ...]]:
    return [tuple(value.bigint_value for value in row.values) for row in page.rows]


def duckdb_rows(sql: str, **parameters: object) -> list[tuple[object, ...]]:
    """The same of DuckDB; `n` is the tuple ID."""
    departures, weather = (rows.append_column("n", pa.array(range(rows.num_rows))) for rows in (DEPARTURES, WEATHER))
    assert departures.num_rows and weather.num_rows
    return duckdb.execute(sql, parameters).fetchall()


def test_an_idle_stream_is_named_and_holds_nothing() -> None:
    clock = VirtualClock(3_600 * SECOND)
    with serving(clock=clock) as service, Client(service.address) as client:
        joined_streams(client, options=" IDLE AFTER 1 MINUTE")
        query = client.register("SELECT f.id FROM departures f, weather w WHERE f.origin = w.origin AND f.id = 59")
        told = query.invoke().completeness
        assert told.now == told.sources[1].watermark and len(query.invoke()) == 0
        clock.advance(seconds=61)
        client.push("departures", [{"at": "1970-01-01T01:00:00Z", "id": 60, "origin": "JFK", "delay": 0}])
        told = query.invoke().completeness
        assert [source.idle for source in told.sources] == [False, True] and not told.final
        assert told.now == told.sources[0].watermark and len(query.invoke()) == 4
        assert "w: the stream is idle, so NOW did not wait for it" in told.sentence()
        assert "idle" in str(query.explain())
