"""The status of derived streams: every view of the service shows the same facts."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from psoup.errors import FailedPrecondition
from psoup.local import LocalPSoup
from psoup.pumps.instants import NO_PROMISE
from psoup.pumps.progress import Progress
from psoup.pumps.pumps import pump_of
from psoup.pumps.status import DerivedStatus, status_of
from psoup.pumps.status_text import status_lines
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget
from psoup_cli.app import app
from psoup_cli.commands.streams.stream import _described, _rounded
from psoup_client import Client
from psoup_service.figures import derived_figures
from psoup_service.figures.derived_figures import DerivedFigures
from psoup_testing.services.threaded_service import Serving, serving

SECOND = 1_000_000
TIMED = "(k BIGINT, at TIMESTAMP) TIMESTAMP BY at"


def rows(*values: tuple[int, int]) -> pa.Table:
    times = pa.array([at * SECOND for _, at in values], pa.timestamp("us"))
    return pa.table({"k": [k for k, _ in values], "at": times})


def figures(soup: LocalPSoup, progress: Progress | None = None) -> dict[tuple[str, str], float]:
    """The metrics of derived streams by name and stream."""
    registry = CollectorRegistry()
    registry.register(DerivedFigures(soup.engine.snapshot, lambda _: progress))
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        (sample.name.removeprefix("psoup_derived_stream_"), sample.labels["stream"]): sample.value
        for family in families
        for sample in family.samples
    }


def test_show_explain_list_and_metrics_have_the_same_facts() -> None:
    with serving() as served, Client(served.address) as client:
        for name in ("e", "f"):
            client.create_stream(f"CREATE STREAM {name} {TIMED}")
        select = "SELECT e.k FROM e [RANGE 1 HOUR], f [RANGE 1 HOUR] WHERE e.k = f.k"
        client.execute(f"CREATE STREAM x AS ({select}) LAG AT MOST 10 SECONDS")
        client.push("e", rows((1, 5), (2, 20)))
        client.push("f", rows((1, 6), (2, 9)))
        assert [row["k"] for row in client.ask("SELECT k FROM x").to_arrow().to_pylist()] == [1]
        query = client.register("SELECT k FROM x")
        derived = client.describe("x").derived
        assert derived is not None
        assert (derived.state, derived.late, derived.held_by, derived.gaps) == ("running", True, "f", ())
        assert [(pin.source, pin.released, pin.unread) for pin in derived.pins] == [("e", False, 1), ("f", False, 1)]
        assert next(each for each in client.streams() if each.name == "x").derived == derived
        shown = dict(_described(client.describe("x")))
        assert shown["derivation"] == "running"
        assert "held back by f; late, as that is more than LAG AT MOST 10 seconds" in shown["lag"]
        assert shown["state"] == "0 rows, 0 bytes"
        explained = query.explain()
        text = "\n".join(explained.lines)
        assert "running; derived up to 1970-01-01 00:00:08.999999Z, 11.0 s behind, held back by f" in text
        assert "late, as LAG AT MOST is 10 SECONDS" in text
        assert "2 tuples read, 1 row derived; state of 0 rows, 0 bytes" in text
        assert "f keeps its tuples from" in text
        host = served.service.host
        status = status_of(
            host.snapshot(), host.snapshot().stream("x", "default"), host.passed.progress(derived_id(served))
        )
        assert status is not None and status.progress.rows == derived.rows == 1


def derived_id(served: Serving) -> int:
    return served.service.host.snapshot().stream("x", "default").stream_id


def test_metrics_name_the_streams_with_the_greatest_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    soup = LocalPSoup(clock=VirtualClock(100 * SECOND))
    soup.execute(f"CREATE STREAM e {TIMED} LATENESS 60 SECONDS")
    soup.execute("CREATE STREAM t (k BIGINT)")
    for number in range(3):
        soup.execute(f"CREATE STREAM x{number} AS (SELECT k FROM {'e' if number == 1 else 't'}) LAG AT MOST 30 SECONDS")
    soup.push("e", rows((1, 1), (2, 90)))
    soup.push("t", pa.table({"k": [1]}))
    soup.execute("ALTER STREAM x2 SUSPEND")
    shown = figures(soup, Progress(tuples=7, rows=5, state_rows=3, state_bytes=400, rebuilding=True))
    assert {name for name, _ in shown} == {*derived_figures.FIGURES}
    assert [shown["late", f"x{number}"] for number in range(3)] == [0, 1, 0]
    assert [shown["suspended", f"x{number}"] for number in range(3)] == [0, 0, 1]
    assert shown["lag_seconds", "x1"] > 30
    assert [shown[name, "x0"] for name in ("tuples", "rows", "state_rows", "state_bytes")] == [7, 5, 3, 400]
    monkeypatch.setattr(derived_figures, "NAMED_STREAMS", 1)
    assert {stream for _, stream in figures(soup)} == {"x1"}


def test_a_stopped_stream_says_so_in_its_explanation() -> None:
    soup = LocalPSoup(clock=VirtualClock(100 * SECOND))
    soup.execute("CREATE STREAM t (k BIGINT)")
    soup.execute("CREATE STREAM x AS (SELECT k FROM t)")
    query = soup.register("SELECT k FROM x")
    soup.push("t", pa.table({"k": [1]}))
    soup.execute("ALTER STREAM x SUSPEND")
    soup.push("t", pa.table({"k": [2]}))
    text = "\n".join(soup.explain(query).lines())
    assert "suspended since 1970-01-01 00:01:40Z; derived up to 1970-01-01 00:01:40Z" in text
    assert "t keeps its tuples from" in text and "1 not read" in text
    (node,) = [node for node in soup.explain(query).nodes if node.operator == "source"]
    assert "suspended since" in node.facts["derived_status"]


def test_the_shell_suspends_and_resumes_a_stream() -> None:
    shell = CliRunner()
    with serving() as served, Client(served.address) as client:
        client.create_stream("CREATE STREAM t (k BIGINT)")
        client.execute("CREATE STREAM x AS (SELECT k FROM t)")

        def run(*words: str, text: str = "") -> str:
            done = shell.invoke(app, [*words, "--address", served.address], input=text)
            assert done.exit_code == 0, done.output
            return done.output

        assert "Altered stream x with 1 column; it is suspended." in run("sql", text="ALTER STREAM x SUSPEND")
        assert "Stream x is suspended now." in run("stream", "alter", "ALTER STREAM x SUSPEND")
        shown = run("stream", "show", "x")
        assert "suspended since" in shown and "t: all its tuples; 0 tuples not read" in shown
        assert "it is running" in run("sql", text="ALTER STREAM x RESUME")


def test_a_stream_over_a_suspended_one_names_it() -> None:
    """A pump that has read all rows of its source has no lag."""
    soup = LocalPSoup(clock=VirtualClock(100 * SECOND))
    soup.execute("CREATE STREAM t (k BIGINT)")
    for name, source in (("x", "t"), ("y", "x"), ("z", "y")):
        soup.execute(f"CREATE STREAM {name} AS (SELECT k FROM {source})")
    soup.push("t", pa.table({"k": [1]}))

    def held_by(name: str) -> str:
        snapshot = soup.engine.snapshot()
        status = status_of(snapshot, snapshot.stream(name, soup.tenant))
        assert status is not None
        return status.held_by

    assert [held_by(name) for name in "xyz"] == ["", "", ""]
    soup.execute("ALTER STREAM x SUSPEND")
    assert [held_by(name) for name in "xyz"] == ["", "x", "x"]


def told(soup: LocalPSoup, name: str, progress: Progress | None = None) -> DerivedStatus:
    snapshot = soup.engine.snapshot()
    status = status_of(snapshot, snapshot.stream(name, soup.tenant), progress)
    assert status is not None
    return status


def test_nothing_holds_a_stream_back_whose_newest_tuple_is_at_the_watermark() -> None:
    """Nothing is left to read, whether the instant is logged or not."""
    soup = LocalPSoup(clock=VirtualClock(100 * SECOND))
    soup.execute(f"CREATE STREAM e {TIMED}")
    soup.execute("CREATE STREAM x AS (SELECT k FROM e)")
    soup.push("e", rows((1, 5), (2, 20)))
    status = told(soup, "x")
    assert (status.lag, status.held_by, status.catches_up) == (0, "", False)
    soup.heartbeat("e", 60 * SECOND)
    soup.push("e", rows((3, 90)))
    status = told(soup, "x")
    assert (status.lag, status.held_by, status.catches_up) == (0, "", False)


def test_a_stream_with_closed_tuples_to_read_catches_up() -> None:
    soup = LocalPSoup(clock=VirtualClock(100 * SECOND))
    soup.execute(f"CREATE STREAM e {TIMED}")
    soup.execute("CREATE STREAM x AS (SELECT k FROM e WHERE k > 1)")
    soup.execute("ALTER STREAM x SUSPEND")
    soup.push("e", rows((1, 5), (2, 20), (3, 40)))
    snapshot = soup.engine.snapshot()
    view = snapshot.stream("x", soup.tenant)
    assert view.spec.derived is not None
    running = replace(view, spec=replace(view.spec, derived=replace(view.spec.derived, halt=None)))
    status = status_of(snapshot, running, Progress(reached=5 * SECOND))
    assert status is not None
    assert (status.lag, status.held_by, status.catches_up) == (35 * SECOND, "", True)
    assert "35.0 s behind, catching up" in "\n".join(status_lines(status))


def test_a_stream_with_ticks_to_evaluate_catches_up_although_no_tuple_is_left() -> None:
    soup = LocalPSoup(clock=VirtualClock(10_000 * SECOND))
    soup.execute(f"CREATE STREAM e {TIMED}")
    soup.execute("CREATE STREAM x AS RSTREAM (SELECT count(*) AS n FROM e [RANGE 1 HOUR]) EVERY 1 SECOND")
    soup.execute("ALTER STREAM x SUSPEND")
    soup.push("e", rows((1, 5), (2, 9_000)))
    snapshot = soup.engine.snapshot()
    view = snapshot.stream("x", soup.tenant)
    assert view.spec.derived is not None
    running = replace(view, spec=replace(view.spec, derived=replace(view.spec.derived, halt=None)))
    pump = pump_of(running)
    pump.halt = None
    command = pump.step(replace(snapshot, by_id={**snapshot.by_id, view.stream_id: running}), NO_PROMISE, ReadBudget())
    assert command is not None
    status = status_of(snapshot, running, pump.progress)
    assert status is not None and status.reached is None and status.catches_up  # its rows are not pushed yet
    pump.pushed(command, snapshot.sequence)
    status = status_of(snapshot, running, pump.progress)
    assert (
        status is not None and status.reached is not None and status.reached // SECOND == command.at // SECOND < 2_000
    )
    assert status.lag == 9_000 * SECOND - status.reached and status.catches_up


def test_an_addition_of_a_column_says_to_create_the_stream_again() -> None:
    soup = LocalPSoup(clock=VirtualClock(100 * SECOND))
    soup.execute("CREATE STREAM t (k BIGINT)")
    soup.execute("CREATE STREAM x AS (SELECT k FROM t)")
    with pytest.raises(FailedPrecondition, match="drop it, and create it again with its columns in the SELECT"):
        soup.execute("ALTER STREAM x ADD COLUMN more TEXT")


def test_the_lag_is_shown_in_seconds_or_days() -> None:
    shown = [_rounded(dt.timedelta(microseconds=span)) for span in (0, 11_000_001, 359_041_000_001)]
    assert shown == ["0 seconds", "11.0 seconds", "4 days, 3:44:01"]


def test_beside_a_stream_in_event_time_a_table_in_system_time_closes_instants_by_the_clock() -> None:
    """A heartbeat may be ahead of the clock. Then versions of the table may still come at the instants in between."""
    soup = LocalPSoup(clock=VirtualClock(100 * SECOND))
    soup.execute(f"CREATE STREAM e {TIMED}")
    soup.execute("CREATE TABLE c (k BIGINT PRIMARY KEY, name TEXT)")
    soup.execute("CREATE STREAM x AS (SELECT e.k, c.name FROM e JOIN c AS OF e ON c.k = e.k)")
    soup.execute("CREATE STREAM tick AS (SELECT k FROM e [RANGE 1 HOUR] JOIN c USING (k)) EVERY 7 SECONDS")
    soup.execute("CREATE STREAM plain AS (SELECT k FROM e)")
    soup.push("c", pa.table({"k": [1, 2], "name": ["a", "b"]}))
    soup.push("e", rows((1, 50), (2, 200)))
    soup.heartbeat("e", 250 * SECOND)

    def seen(name: str) -> tuple[int | None, int, str]:
        pump = soup._pumps.by_id[soup.engine.snapshot().stream(name, soup.tenant).stream_id]
        status = told(soup, name, pump.progress._replace(clock=soup.clock.now()))
        return status.reached, status.lag, status.held_by

    assert seen("plain") == (250 * SECOND - 1, 0, "")
    assert seen("x") == (100 * SECOND, 100 * SECOND, "c"), "the watermark has passed it, and the clock has not"
    reached, lag, held_by = seen("tick")
    assert reached is not None and reached <= 100 * SECOND and (lag, held_by) == (200 * SECOND - reached, "c")
    soup.clock.advance(seconds=300)  # type: ignore[attr-defined]
    soup.heartbeat("e", 250 * SECOND)
    assert seen("x") == (250 * SECOND - 1, 0, ""), "now the watermark is the lesser one"
    assert seen("tick") == seen("x")
    lines = soup.explain(soup.register("SELECT k FROM x")).nodes[1].facts["derived_status"].split("; ")
    closed = "an instant is closed once the watermark of e has passed it, and the clock has reached it"
    assert f"{closed}, as c is in system time" in lines
    plain = soup.explain(soup.register("SELECT k FROM plain")).nodes[1].facts["derived_status"]
    assert "the clock" not in plain
