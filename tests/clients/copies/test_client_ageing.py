"""Copies at clients without a connection: what they show by the clock there is what the service would answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_client import AnswerCopy, Client
from psoup_client.copies import answer_copy as copies_module
from psoup_client.copies.moments import Moment, elapsed, moment, step
from psoup_testing.services.threaded_service import serving
from psoup_testing.suite.sweeps import swept

pytestmark = [
    pytest.mark.seeded("rows are deleted by the client's clock"),
    pytest.mark.seeded("hidden a microsecond early"),
    pytest.mark.seeded("hidden where others enter, or as LIMIT and event time do not allow"),
    pytest.mark.seeded("retention is forgotten"),
]

START = 10**9 * SECOND
AGEING = {
    "BEGIN (NOW - 20 SECONDS)": True,
    "BEGIN (START)": True,
    "BEGIN TIMESTAMP '2001-09-09 01:46:45' END TIMESTAMP '2001-09-09 01:47:00'": True,
    "BEGIN (NOW - 1 HOUR) END TIMESTAMP '2001-09-09 01:46:50'": True,
    "BEGIN (NOW - 30 SECONDS) END (NOW - 10 SECONDS)": False,
    "BEGIN (NOW - 5 ROWS)": False,
}


@dataclass
class Here:
    """The clocks of a client, which may be set; `moment` is in the place of the function of that name."""

    wall: int = START
    boot: int = 0
    boot_id: str = "a"

    def moment(self) -> Moment:
        return Moment(self.wall, self.boot, self.boot_id)

    def wait(self, seconds: int) -> None:
        self.wall += seconds * SECOND
        self.boot += seconds * SECOND


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Here:
    here = Here(wall=5 * SECOND)  # far from the clock of the service
    monkeypatch.setattr(copies_module, "moment", here.moment)
    return here


def shown(copy: AnswerCopy) -> list[tuple[object, ...]]:
    return copy.rows(now=copy.estimated_now)


@pytest.mark.parametrize("retention", swept(["", " RETENTION 40 SECONDS"], fast=1))
def test_what_is_shown_is_the_answer_of_later(here: Here, retention: str) -> None:
    clock = VirtualClock(START)
    with serving(clock=clock) as service, Client(service.address) as client:
        client.create_stream(f"CREATE STREAM s (n BIGINT){retention}")
        windows = [window for window in AGEING if not (retention and "TIMESTAMP" in window)]
        queries = [client.register(f"SELECT n FROM s WHERE n <> 3 ORDER BY n DESC {window}") for window in windows]
        limited = client.register("SELECT n FROM s LIMIT 4 BEGIN (NOW - 20 SECONDS)")
        for n in range(40):
            client.push("s", {"n": [n]})
            clock.advance(seconds=1)
            here.wait(1)
        copies = [client.copy(query) for query in [*queries, limited]]
        client.sync(copies)
        before = [copy.rows() for copy in copies]
        for seconds in (0, 1, 8, 3, 30):
            clock.advance(seconds=seconds)
            here.wait(seconds)
            for window, copy, query in zip(windows, copies, queries, strict=False):
                assert copy.certainty == ("exact now" if AGEING[window] else "as of"), window
                expected = query.invoke().rows() if AGEING[window] else before[copies.index(copy)]
                assert shown(copy) == expected, (window, seconds)
            assert (copies[-1].certainty, shown(copies[-1])) == ("as of", before[-1])
        assert [copy.rows() for copy in copies] == before, "rows are hidden, not deleted"
        assert any(not shown(copy) for copy in copies) and all(before)


def test_event_time_stands_still_offline(here: Here, client: Client, make_stream: Callable[[str], str]) -> None:
    name = make_stream("(n BIGINT, at TIMESTAMP) TIMESTAMP BY at")
    query = client.register(f"SELECT n FROM {name} BEGIN (NOW - 10 SECONDS)")
    client.push(name, {"n": [1, 2, 3], "at": [f"2020-01-01T00:00:{at:02}Z" for at in (0, 8, 15)]})
    copy = client.copy(query)
    copy.sync()
    here.wait(3_600)
    assert copy.estimated_now == copy.now and copy.certainty == "as of"
    assert shown(copy) == [(2,), (3,)]
    assert copy.rows(now="2020-01-01T00:00:20Z") == [(3,)], "at a NOW that is given"


def test_a_part_is_called_a_part(client: Client, make_stream: Callable[[str], str]) -> None:
    name = make_stream("(n BIGINT)")
    client.push(name, {"n": range(3_000)})
    copy = client.copy(client.register(f"SELECT n, n + 1 AS m FROM {name} BEGIN (START)"))
    copy.sync(max_bytes=5_000)
    assert copy.certainty == "partial"
    copy.sync()
    assert copy.certainty == "exact now"


@pytest.mark.seeded("NOW is estimated by a wall clock that was set, or goes back")
@pytest.mark.seeded("the greatest estimate is kept after the service's word")
def test_the_estimate_survives_clocks_that_are_set(
    here: Here, client: Client, make_stream: Callable[[str], str]
) -> None:
    name = make_stream("(n BIGINT)")
    client.push(name, {"n": [1]})
    copy = client.copy(client.register(f"SELECT n FROM {name} BEGIN (NOW - 1 HOUR)"))
    copy.sync()
    assert copy.now is not None

    def since() -> float:
        assert copy.now is not None and copy.estimated_now is not None
        return (copy.estimated_now - copy.now).total_seconds()

    here.wait(10)
    here.wall -= 3_600 * SECOND
    assert since() == 10, "the wall clock was set, and the other one was not"
    here.wait(5)
    copy = client.copy_from(copy.to_bytes())
    assert since() == 15, "stored with the copy"
    here.boot_id, here.boot = "b", 0
    assert since() == 15, "never back"
    here.wall += 3_600 * SECOND + 7 * SECOND
    assert since() == 22, "after a boot the wall clock has to do"
    copy.sync()
    assert since() == 0, "the service knows"


def test_moments_are_told_apart() -> None:
    first = Moment(100 * SECOND, 10 * SECOND, "a")
    for later, waited, stepped in (
        (Moment(101 * SECOND, 11 * SECOND, "a"), 1, 0),
        (Moment(50 * SECOND, 11 * SECOND, "a"), 1, -51),
        (Moment(108 * SECOND, 12 * SECOND, "a"), 2, 6),
        (Moment(107 * SECOND, 12 * SECOND, "a"), 2, 0),
        (Moment(107 * SECOND, 0, "b"), 7, 0),
        (Moment(50 * SECOND), 0, 0),
    ):
        assert (elapsed(first, later), step(first, later)) == (waited * SECOND, stepped * SECOND)
    assert moment().wall > 0


@pytest.mark.parametrize(
    ("first", "second", "ages"),
    swept(
        [
            ("BEGIN (NOW - 20 SECONDS)", "BEGIN (NOW - 8 SECONDS)", True),
            ("BEGIN (START)", "BEGIN (NOW - 12 SECONDS)", True),
            ("BEGIN (START)", "BEGIN (START)", True),
            ("BEGIN (NOW - 20 SECONDS)", "BEGIN (NOW - 8 ROWS)", False),
            ("BEGIN (NOW - 20 SECONDS) END (NOW - 2 SECONDS)", "BEGIN (START)", False),
        ],
        fast=2,
    ),
)
def test_a_joined_row_is_hidden_with_the_first_of_its_tuples(here: Here, first: str, second: str, ages: bool) -> None:
    clock = VirtualClock(START)
    with serving(clock=clock) as service, Client(service.address) as client:
        client.create_stream("CREATE STREAM r (k BIGINT) RETENTION 40 SECONDS")
        client.create_stream("CREATE STREAM s (k BIGINT)")
        query = client.register(
            f"SELECT r.k, s._id AS i FROM r [{first}], s [{second}] WHERE r.k = s.k ORDER BY r.k DESC"
        )
        for n in range(30):
            client.push("rs"[n % 2], {"k": [n // 2 % 4, n % 3]})
            clock.advance(seconds=1)
            here.wait(1)
        copy = client.copy(query)
        copy.sync()
        before = copy.rows()
        assert before == query.invoke().rows() and before
        copy = client.copy_from(copy.to_bytes())
        for seconds in (0, 1, 4, 3, 30):
            clock.advance(seconds=seconds)
            here.wait(seconds)
            assert copy.certainty == ("exact now" if ages else "as of")
            assert shown(copy) == (query.invoke().rows() if ages else before), seconds
        assert not ages or len(shown(copy)) < len(before)
        assert copy.rows() == before, "rows are hidden, not deleted"
