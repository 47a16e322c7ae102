"""Joins as clients see them: one query over several streams, whose sides only jobs may ask for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest

from psoup.matching.outside import Beforehand
from psoup.sql import create_stream
from psoup_client import Client, InvalidRequest, NotFound, Query
from psoup_storage import open_store
from psoup_storage.formats.covers import Cover, StoredFile, cover_chunk, write_cover
from psoup_storage.formats.matches import ranges_of
from psoup_testing.attaching import write
from psoup_testing.joins_served import DEPARTURES, WEATHER, joined_streams
from psoup_testing.serving import serving

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
        ("f", "departures", "FROM departures", WINDOW, "sliding"),
        ("w", "weather", "FROM weather WHERE wind >= 21", "BEGIN (START) END (NOW)", "landmark"),
    ]
    assert query.info.clause == "FROM departures; FROM weather WHERE wind >= 21; Join origin = 1.origin"
    assert query.info.window == f"f {WINDOW}, w BEGIN (START) END (NOW)"
    same = client.register(f"SELECT f.id FROM departures f JOIN weather w USING (origin) {WINDOW}")
    assert same.info.window == WINDOW
    for name in ("departures", "weather"):
        assert {query, same} <= set(client.queries(name))
    client.unregister_many([query, same])


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
    client.unregister_many([plain, join, twice])
    assert client.queries("weather", include_sides=True) == []


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
