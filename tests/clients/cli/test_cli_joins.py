"""Joins on the command line: registered, listed, explained, asked with windows of their sources."""

from __future__ import annotations

from psoup_client import Client
from psoup_testing.services.command import Psoup
from psoup_testing.services.fixtures import numbers
from psoup_testing.services.joins_served import joined_streams


def test_a_join_from_the_shell(psoup: Psoup, client: Client) -> None:
    departures, weather = joined_streams(client, f"_cli{next(numbers)}")
    sql = f"SELECT f.id, w.wind FROM {departures} f JOIN {weather} w USING (origin) WHERE f.delay > 100 AND w.wind > 20"
    query = psoup("register", sql).out.strip()
    answer = psoup("invoke", query)
    rows = answer.out.splitlines()[1:]
    assert len(rows) > 4 and "NOW waits at 1970-01-01 00:55:00Z for w" in answer.err
    assert psoup("ask", sql).out == answer.out
    early = ("--window", "f=BEGIN (NOW - 10 MINUTES)", "--window", "w=BEGIN (NOW)")
    few = psoup("invoke", query, *early)
    assert set(few.out.splitlines()[1:]) < set(rows)
    assert psoup("ask", sql, *early).out == few.out
    assert psoup("invoke", query, "--window", "BEGIN (NOW)").out.splitlines()[1:] == []
    assert len(psoup("invoke", query, query, *early, "--json").rows[0]["rows"]) == len(few.out.splitlines()) - 1
    for wrong in (("BEGIN (NOW)", "w=BEGIN (NOW)"), ("w=BEGIN (NOW)", "w = BEGIN (NOW)")):
        refused = psoup("invoke", query, "--window", wrong[0], "--window", wrong[1])
        assert (refused.code, "once for each source" in refused.err) == (2, True)
    unknown = psoup("invoke", query, "--window", "x=BEGIN (NOW)")
    assert "has no source 'x'" in unknown.err
    listed = psoup("queries", "--stream", weather, "--json").rows
    assert [(row["query_id"], row["streams"]) for row in listed] == [(query, [departures, weather])]
    assert [source["alias"] for source in listed[0]["sources"]] == ["f", "w"]
    explained = psoup("explain", query).out
    assert f"source 1 {departures} AS f (event time)" in explained and f"source 2 {weather} AS w" in explained
    keeping = psoup("register", sql, "--keep-pairs", "--json").rows[0]
    assert (keeping["keep_pairs"], listed[0]["keep_pairs"]) == (True, False)
    assert psoup("unregister", keeping["query_id"]).code == 0
    late = client.push(departures, [{"at": "1970-01-01", "id": 1, "origin": "JFK", "delay": 1}], refused="count")
    client.wait_for(late.sequence)
    assert "f: 1 tuple of the stream came too late" in psoup("invoke", query).err
    assert psoup("unregister", query).code == 0


def test_an_absence_from_the_shell(psoup: Psoup, client: Client) -> None:
    departures, weather = joined_streams(client, f"_cli{next(numbers)}")
    sql = f"SELECT f.id FROM {departures} f WHERE NOT EXISTS (SELECT 1 FROM {weather} w WHERE w.origin = f.origin)"
    query = psoup("register", sql).out.strip()
    assert "w: its tuples may take rows away" in psoup("invoke", query).err
    inside = psoup("ask", f"SELECT f._id FROM {departures} f JOIN {weather} w USING (origin) LIMIT 1", "--json").rows
    prevented = psoup("why", query, str(inside[0]["_id"]), "--source", "f")
    last = prevented.out.splitlines()[-1]
    assert last.startswith("no   absence    ANTI JOIN f.origin = w.origin    (prevented by w ")
    assert "Kept out by: ANTI JOIN" in prevented.err
    steps = psoup("why", query, str(inside[0]["_id"]), "--source", "f", "--json").rows
    assert list(steps[-1]["partners"]) == ["w"] and "partners" not in steps[0]
    removing = psoup("why", query, str(steps[-1]["partners"]["w"]), "--source", "w")
    assert "takes away the row of f" in removing.out and "it can only take rows away" in removing.err
    unnamed = psoup("why", query, "0")
    assert unnamed.code == 1 and "its sources are called f, w" in unnamed.err
    short = f"{sql} BEGIN TIMESTAMP '1970-01-01 00:00:00' END TIMESTAMP '1970-01-01 00:05:00'"
    assert f"if later tuples are to count, give each source a window in brackets: {weather} w [BEGIN" in "".join(
        psoup("check", short, "--json").rows[0]["notes"]
    )
    assert "Note: tuples of w after END take no row away" in psoup("check", short).out
    assert f"ANTI JOIN f.origin = w.origin [strict, rows of {weather}]" in psoup("explain", query).out
    plan = [line.removeprefix("plan").strip(" ") for line in psoup("check", sql).out.splitlines()[4:8]]
    assert [line.split(" ")[0] for line in plan] == ["Project", "ANTI", "Source", "Source"]
    assert psoup("unregister", query).code == 0
