"""The demo, whole: as a command with its own service, and its answers against DuckDB on the same Parquet."""

import datetime as dt
import io
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from rich.console import Console

from psoup_cli.flights.dataset import LAST_HEARTBEAT, YEAR_START, load, load_weather
from psoup_cli.flights.interrupt import CtrlC
from psoup_cli.flights.questions import AFTER, BEFORE, COUNTS, DURING, JOINS, MERGED_FROM, NAMES
from psoup_cli.flights.story import APRIL, INDEPENDENCE_DAY, JULY, MARCH, ShownAnswer, Story
from psoup_cli.flights.stranded_planes import Stranded
from psoup_client import Client, OutOfRange, Unavailable
from psoup_testing.histories.flights import (
    JOINED,
    WINDOWS,
    ask_duckdb,
    count_in_duckdb,
    searches_in_duckdb,
    stranded_in_duckdb,
)
from psoup_testing.services.threaded_service import serving
from psoup_testing.services.zygote import Zygote
from psoup_testing.suite.sweeps import swept

UTC = dt.UTC
QUESTIONS = (*BEFORE, *DURING, *JOINS, *COUNTS, *AFTER, NAMES)


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    return load()


# The data ------------------------------------------------------------------------------------------------


def test_every_flight_is_there(flights: pa.Table) -> None:
    rows = duckdb.sql(
        """SELECT count(*), count(*) FILTER (cancelled), count(*) FILTER (dep_delay IS NULL),
                  count(*) FILTER (cancelled AND departure <> scheduled),
                  count(*) FILTER (NOT cancelled AND departure - scheduled <> to_minutes(dep_delay)),
                  count(*) FILTER (arr_delay IS NULL), count(*) FILTER (air_time IS NULL AND arr_delay IS NOT NULL),
                  count(DISTINCT airline)
           FROM flights"""
    ).fetchall()
    assert rows == [(336_776, 8_255, 8_255, 0, 0, 9_430, 0, 16)]


def test_flights_are_in_order_and_of_one_year(flights: pa.Table) -> None:
    departures = flights["departure"]
    assert pc.all(pc.less_equal(departures[:-1], departures[1:])).as_py()
    assert departures[0].as_py() == dt.datetime(2013, 1, 1, 10, 17, tzinfo=UTC)  # UA 1545, at 5:17
    assert departures[0].as_py() > dt.datetime.fromisoformat(YEAR_START)
    assert departures[-1].as_py() < dt.datetime.fromisoformat(LAST_HEARTBEAT)


def test_the_weather_has_each_hour_and_airport_once() -> None:
    weather = load_weather()
    rows = duckdb.sql("SELECT count(*), count(DISTINCT (hour, origin)), count(DISTINCT origin) FROM weather").fetchall()
    assert rows == [(26_115, 26_115, 3)]
    assert pc.all(pc.less_equal(weather["hour"][:-1], weather["hour"][1:])).as_py()


# The story -----------------------------------------------------------------------------------------------


class Told(NamedTuple):
    """A story at its end, and the rows of its derived stream."""

    story: Story
    stranded: pa.Table


@pytest.fixture(scope="module", params=swept(["in memory", "killed"], fast=0))
def ended(request: pytest.FixtureRequest, flights: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Told twice: by a service in memory, and by one on disk that kill -9 ends in the middle of a replay."""
    if request.param == "in memory":
        with serving() as service:
            return tell(service.address, flights)
    data = str(tmp_path_factory.mktemp("demo") / "data")
    with Zygote() as zygote:
        zygote.start(data)
        address = zygote.ready()
        with ThreadPoolExecutor(1) as killer:
            killed = killer.submit(kill_in_the_middle, zygote, address, data)
            end = tell(address, flights)
            killed.result()
        assert zygote.stop() == 0
        return end


@pytest.fixture(scope="module")
def story(ended: Told) -> Story:
    return ended.story


@pytest.fixture(scope="module")
def stranded(story: Story) -> Stranded:
    assert story.stranded is not None
    return story.stranded


def tell(address: str, flights: pa.Table) -> Told:
    with Client(address) as client:
        client.create_stream("CREATE STREAM flights (a BIGINT)")  # somebody's: the demo takes another name
    story = Story(Console(file=io.StringIO(), width=120), address, flights, 0, CtrlC())
    story.run()
    assert story.stranded is not None
    with Client(address) as client:
        rows = client.ask(f"SELECT departure, _time, flight, airline, tailnum, dest FROM {story.stranded.name}")
        return Told(story, rows.to_arrow())


def event_after(client: Client, sequence: int) -> int:
    try:
        return client.wait_for(sequence + 1)
    except OutOfRange:
        return sequence


def kill_in_the_middle(zygote: Zygote, address: str, data: str) -> None:
    """Once 120,000 flights have left, of the 170,000 that leave before July."""
    with Client(address) as client:
        patience, sequence = time.monotonic() + 240, 0
        while all(stream.name != "flights_2" or stream.tuples < 120_000 for stream in client.streams()):
            sequence = event_after(client, sequence)
            assert time.monotonic() < patience
    assert zygote.kill() == 9
    zygote.start(data, int(address.rpartition(":")[2]))
    assert zygote.ready() == address


def expected_now(shown: ShownAnswer, position: int, flights: pa.Table) -> dt.datetime:
    """NOW when the answer was given: as asked, or the last departure before the pause, or the heartbeat."""
    if shown.as_of is not None:
        return shown.as_of
    pauses = (MARCH, JULY)
    pause = pauses[0] if position < 10 else pauses[1] if position < 18 else None
    if pause is None:
        return dt.datetime.fromisoformat(LAST_HEARTBEAT)
    departures = flights["departure"]
    return pc.max(departures.filter(pc.less(departures, pa.scalar(pause)))).as_py()


def test_every_question_is_asked_and_named_once(story: Story) -> None:
    assert {shown.question.name for shown in story.shown} == {*WINDOWS, *JOINED} == {q.name for q in QUESTIONS}
    assert len(QUESTIONS) == 18
    assert story.stream == "flights_2"


def test_answers_are_those_of_duckdb(story: Story, flights: pa.Table) -> None:
    assert len(story.shown) == 27
    for position, shown in enumerate(story.shown):
        now = expected_now(shown, position, flights)
        assert shown.answer.completeness.now == now, shown.question.name
        expected = ask_duckdb(shown, now, flights)
        assert Counter(shown.answer.rows()) == Counter(expected), (shown.question.name, shown.as_of)
        assert expected, f"{shown.question.name} has nothing to show"


def test_the_traveller_has_the_answers_of_july(story: Story, flights: pa.Table) -> None:
    july = {shown.question.name: shown.answer for shown in story.shown[10:18]}
    assert list(story.carried) == ["hour_late", *july] and len(july) == 8
    for name, answer in july.items():
        assert repr(story.carried[name].to_pylist()) == repr(answer.to_arrow().to_pylist()), name
    late = duckdb.from_arrow(flights.filter(pc.less(flights["departure"], pa.scalar(JULY)))).filter("dep_delay > 60")
    expected = late.select("departure, airline, flight, origin, dest, dep_delay").fetchall()
    rows = [tuple(row.values()) for row in story.carried["hour_late"].to_pylist()]
    assert len(rows) > 10_000 and Counter(rows) == Counter(expected)


def test_ordered_answers_are_in_order(story: Story) -> None:
    for shown in story.shown:
        if "ORDER BY dep_delay DESC" in shown.question.sql:
            delays = [row["dep_delay"] for row in shown.answer]
            assert delays == sorted(delays, reverse=True)
        elif "ORDER BY" not in shown.question.sql:
            times = [next(iter(row.values())) for row in shown.answer]
            order = sorted(times) if "departure" in shown.answer.columns else times
            assert times == order  # the order of the stream


def test_a_hundred_thousand_counters_are_those_of_duckdb(story: Story, flights: pa.Table) -> None:
    now = dt.datetime.fromisoformat(LAST_HEARTBEAT)
    table = story.counters.to_arrow()
    assert table.num_rows == story.counters.queries == 100_000
    assert table["_query"].to_pylist() == list(range(100_000))
    assert not story.counters.failures
    counted = list(zip(*(column.to_pylist() for column in table.columns[1:]), strict=True))
    assert counted == count_in_duckdb(story.travellers, now, flights)


def test_a_hundred_thousand_searches_over_the_derived_stream_are_those_of_duckdb(
    ended: Told, stranded: Stranded, flights: pa.Table
) -> None:
    now = dt.datetime.fromisoformat(LAST_HEARTBEAT) - dt.timedelta(microseconds=1)  # the instant at it is open
    (group,) = stranded.answers.completeness
    assert (group.completeness.now, group.completeness.final) == (now, True)
    expected = stranded_in_duckdb(now, flights)
    rows = [tuple(row.values()) for row in ended.stranded.to_pylist()]
    assert len(rows) > 1_800 and Counter(rows) == Counter(tuple(row.values()) for row in expected.to_pylist())
    assert stranded.answers.queries == 100_000 and not stranded.answers.failures
    answers = stranded.answers.to_arrow()
    wanted = searches_in_duckdb(stranded.destinations, now, expected).cast(answers.schema)
    order = [(name, "ascending") for name in answers.column_names]
    assert answers.num_rows > 100_000
    assert answers.sort_by(order).equals(wanted.sort_by(order))


def test_the_derived_stream_keeps_the_name_of_an_airline_that_merged(ended: Told, stranded: Stranded) -> None:
    assert stranded.old_names == ended.stranded["airline"].to_pylist().count(MERGED_FROM) > 0


def test_what_is_final_says_so(story: Story) -> None:
    final = {(shown.question.name, shown.as_of) for shown in story.shown if shown.answer.completeness.final}
    ended = {("blizzard", None), ("thanksgiving", None), ("hawaiian", INDEPENDENCE_DAY), ("jfk", JULY)}
    assert final == {*ended, ("overdue", None)}  # its flights left 8 hours ago, and all arrivals up to NOW are known
    assert MARCH < APRIL < JULY


# The command ---------------------------------------------------------------------------------------------


def psoup(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "psoup_cli.main", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def nobody_serves_at(address: str) -> bool:
    with Client(address, timeout=10) as client:
        try:
            client.info()
        except Unavailable:
            return True
    return False


def address_in(output: str) -> str:
    found = re.search(r"listens on (127\.0\.0\.1:[0-9]+)", output)
    assert found, output
    return found[1]


@pytest.mark.long
def test_once_ends_by_itself_and_leaves_nothing_behind() -> None:
    process = psoup("demo", "--serve", "--once", "--speed", "0", "--port", "0")
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    for question in QUESTIONS:
        assert question.title in output
    for text in ("336,776 of 336,776 flights", "flights/s", "as of Thu 4 Jul 2013", "What to type next", "comes back"):
        assert text in output
    for text in (
        "A traveller takes 9 answers along",
        "without a network",
        "bytes anew",
        "for a file that knew nothing",
    ):
        assert text in output
    for text in (
        "100,000 travellers",
        "100,000 rows of 100,000 queries",
        "over an hour late ten times",
        "50,000 of them are at home",
        "100,000 travellers save a search over stranded",
        "CREATE STREAM stranded AS (",
        "derived up to Wed 1 Jan 2014 00:59, lag 0.0 s; 1,801 rows",
        "30 planes of US Airways Inc.",
    ):
        assert text in output
    assert "no   window     _time" in output  # the longest delay was more than an hour ago
    assert "  1 flights/jfk: 2   2 flights/late: 1   3 flights/hawaiian: 0" in output
    assert "\x1b" not in output  # no colours in a pipe
    assert "Traceback" not in output
    assert nobody_serves_at(address_in(output))


@pytest.mark.long
def test_ctrl_c_in_the_middle_is_clean() -> None:
    process = psoup("demo", "--serve", "--port", "0")
    assert process.stdout is not None
    output = ""
    while "Replaying" not in output:
        line = process.stdout.readline()
        assert line, output
        output += line
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in rest
    assert nobody_serves_at(address_in(output))


@pytest.mark.long
def test_the_service_of_the_demo_ends_with_its_parent() -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "psoup_cli.flights.child", "0", ":memory:"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    address = child.stdout.readline().strip()
    with Client(address) as client:
        assert client.info().state == "serving"
    child.stdin.close()
    assert child.wait(timeout=60) == 0
    assert nobody_serves_at(address)
    child.stdout.close()
