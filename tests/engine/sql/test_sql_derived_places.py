"""Refusals of derived streams point at the word that is to blame, and name the ways out."""

from __future__ import annotations

import pytest

from psoup.errors import SqlError
from psoup.model import StreamSpec
from psoup.sql import create_stream

STREAMS = {
    spec.name: spec
    for spec in map(
        create_stream,
        (
            "CREATE STREAM t (k TEXT, v BIGINT)",
            "CREATE STREAM e (k TEXT, at TIMESTAMP) TIMESTAMP BY at RETENTION 3 HOURS",
            "CREATE STREAM f (k TEXT, at TIMESTAMP) TIMESTAMP BY at",
            "CREATE STREAM idle (k TEXT, at TIMESTAMP) TIMESTAMP BY at IDLE AFTER 1 MINUTE",
            "CREATE STREAM last (k TEXT, at TIMESTAMP) TIMESTAMP BY at RETENTION 10 ROWS",
        ),
    )
}


def refusal(rest: str) -> SqlError:
    with pytest.raises(SqlError) as refused:
        create_stream(f"CREATE STREAM x AS {rest}", new=True, lookup=lambda name: find(name), names=list(STREAMS))
    return refused.value


def find(name: str) -> StreamSpec | None:
    return STREAMS.get(name.lower())


def pointed_at(problem: SqlError) -> str:
    """The text from the caret on."""
    line, caret = problem.excerpt.split("\n")
    return line[caret.index("^") :]


@pytest.mark.parametrize(
    ("rest", "pointed"),
    [
        ("(SELECT k, now() AS n FROM e [BEGIN (NOW - 1 HOUR) END (NOW)]) EVERY 1 HOUR", "now() AS n"),
        ("(SELECT k FROM e [BEGIN (NOW - 1 HOUR) END (NOW)] ORDER BY now() LIMIT 1) EVERY 1 HOUR", "now() LIMIT"),
        ("(SELECT e.k FROM e, idle WHERE e.k = idle.k) EVERY 1 SECOND", "idle WHERE"),
        ("(SELECT last.k FROM last) EVERY 1 SECOND", "last) EVERY"),
        ("(SELECT t.k FROM t) EVERY 1 SECOND", "t) EVERY"),
        ("(SELECT e.k FROM e JOIN f ON e.k = f.k) EVERY 1 SECOND", "f ON"),
        ("(SELECT f.k FROM f [RANGE 1 HOUR] f, f AS g WHERE f.k = g.k) EVERY 1 SECOND", "f AS g"),
        ("(SELECT k FROM e END (NOW - 4 HOURS))", "e END"),
        ("(SELECT DISTINCT t.k FROM t)", "t)"),
        (
            "(SELECT f.k FROM f [RANGE 1 HOUR] f WHERE NOT EXISTS (SELECT 1 FROM f g WHERE f.k = g.k))",
            "f g WHERE",
        ),
        ("(SELECT k FROM e EXCEPT SELECT k FROM f)", "f)"),
        ("DSTREAM (SELECT e.k FROM e, f WHERE e.k = f.k)", "f WHERE"),
    ],
)
def test_a_refusal_points_at_the_word(rest: str, pointed: str) -> None:
    assert pointed_at(refusal(rest)).startswith(pointed)


def test_a_state_without_a_bound_names_its_edge_and_the_ways_out() -> None:
    absence = refusal("(SELECT f.k FROM f WHERE NOT EXISTS (SELECT 1 FROM e WHERE f.k = e.k))")
    assert absence.reason == "UNBOUNDED_STATE"
    assert "the state of ANTI JOIN f.k = e.k has no bound: tuples of 'f' never leave it" in str(absence)
    ways = ("f [RANGE 1 DAY]", "RETENTION in time", "e._time BETWEEN f._time AND f._time + INTERVAL 1 HOUR", "64 MB")
    assert all(way in absence.hint for way in ways)
    for rest in (
        "(SELECT DISTINCT k FROM f)",
        "(SELECT k FROM f WHERE k NOT IN (SELECT k FROM e))",
        "(SELECT k FROM t WHERE NOT EXISTS (SELECT 1 FROM t u WHERE u.k = t.k))",
    ):
        assert "BETWEEN" not in refusal(rest).hint, rest


def test_the_time_band_of_the_hint_is_a_way_out() -> None:
    hint = refusal("(SELECT f.k FROM f WHERE NOT EXISTS (SELECT 1 FROM f g WHERE f.k = g.k))").hint
    band = hint.partition("as in g._time")[2].partition(",")[0]
    select = f"SELECT f.k FROM f WHERE NOT EXISTS (SELECT 1 FROM f g WHERE f.k = g.k AND g._time{band})"
    assert create_stream(f"CREATE STREAM x AS ({select})", new=True, lookup=find).derived is not None
