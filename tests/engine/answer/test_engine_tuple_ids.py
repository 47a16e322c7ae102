"""The tuple IDs of the rows of a push: what the tuples then show, however late they are released."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psoup.admission.together import share
from psoup.answer.tuples.pushed_ids import tuple_ids
from psoup.config import EngineConfig
from psoup.data import arrivals
from psoup.data.arrivals import UNKNOWN, WAITS, Arrivals
from psoup.errors import InvalidInput, NotFound, OutOfRange
from psoup.events.acknowledgements import PushAcknowledgement
from psoup.events.commands import Push
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.work.clock import VirtualClock

EVENT_TIME = "CREATE STREAM s (a BIGINT, at TIMESTAMP NOT NULL) TIMESTAMP BY at LATENESS 5 SECONDS"


def made(sql: str) -> LocalPSoup:
    soup = LocalPSoup(EngineConfig(chunk_rows=64), VirtualClock(10_000 * SECOND))
    soup.execute(sql)
    return soup


def timed(soup: LocalPSoup, first: int, seconds: list[int]) -> PushAcknowledgement:
    at = pa.array([SECOND * second for second in seconds], pa.timestamp("us", "UTC"))
    return soup.push("s", pa.table({"a": range(first, first + len(seconds)), "at": at}), refused="count")


def test_in_system_time_they_are_one_range() -> None:
    soup = made("CREATE STREAM s (a BIGINT)")
    pushed = [soup.push("s", pa.table({"a": range(rows)})) for rows in (50, 0, 50, 50)]
    assert [soup.tuple_ids("s", each) for each in pushed] == [range(50), range(0), range(50, 100), range(100, 150)]
    snapshot = soup.engine.snapshot()
    some = tuple_ids(snapshot, "s", pushed[2].sequence, 7, 3, tenant="default")
    assert some.listed() == range(57, 60)


def test_rows_wait_for_the_watermark() -> None:
    soup = made(EVENT_TIME)
    first = timed(soup, 0, [1, 9, 8, 4])
    assert soup.tuple_ids("s", first) == [0, None, None, 1]
    second = timed(soup, 4, [8, 15, 2])
    assert (second.accepted, second.late) == (2, 1)
    assert soup.tuple_ids("s", first) == [0, 4, 2, 1]  # 8 of the first push stands before 8 of the second
    assert soup.tuple_ids("s", second) == [3, None]
    soup.heartbeat("s", 20 * SECOND)
    assert soup.tuple_ids("s", second) == [3, 5]
    query = soup.register("SELECT a, _id FROM s")
    rows = soup.invoke(query).to_table().to_pydict()
    assert dict(zip(rows["a"], rows["_id"], strict=True)) == {0: 0, 3: 1, 2: 2, 4: 3, 1: 4, 5: 5}
    soup.check()


def test_what_is_not_known_is_an_error_that_says_so() -> None:
    soup = made(EVENT_TIME)
    soup.execute("CREATE STREAM other (a BIGINT)")
    pushed = timed(soup, 0, [1, 2])
    elsewhere = soup.push("other", pa.table({"a": [1]}))
    snapshot, tenant = soup.engine.snapshot(), "default"
    with pytest.raises(OutOfRange, match="event 4 is not a push that stream 's' took rows of"):
        tuple_ids(snapshot, "s", elsewhere.sequence, 0, 1, tenant=tenant)
    with pytest.raises(OutOfRange, match=r"event 1 is not known to stream 's'.*from event 3 on"):
        tuple_ids(snapshot, "s", 1, 0, 1, tenant=tenant)
    with pytest.raises(NotFound):
        tuple_ids(snapshot, "none", pushed.sequence, 0, 1, tenant=tenant)
    for first, rows in ((-1, 1), (0, 3), (2, 1), (0, -1), (2**62, 2**62)):
        with pytest.raises(InvalidInput, match="event 3 has 2 rows"):
            tuple_ids(snapshot, "s", pushed.sequence, first, rows, tenant=tenant)


def test_rows_of_pushes_that_share_an_event() -> None:
    soup = made("CREATE STREAM s (a BIGINT)")
    soup.push("s", pa.table({"a": [0]}))
    whole = soup.push("s", pa.table({"a": [1, 2, 3]}))
    parts = [Push("s", pa.record_batch({"a": values})) for values in ([1], [2, 3])]
    assert [soup.tuple_ids("s", answer) for answer in share(whole, parts)] == [range(1, 2), range(2, 4)]


def test_attached_history_and_widened_columns_change_no_id() -> None:
    soup = made(EVENT_TIME)
    first = timed(soup, 0, [9, 1, 8])
    soup.execute("ALTER STREAM s ADD COLUMN b TEXT")
    timed(soup, 3, [30])
    assert soup.tuple_ids("s", first) == [2, 0, 1]


def as_range(numbers: list[int]) -> range | np.ndarray:  # type: ignore[type-arg]
    """A range, if the numbers are one."""
    whole = range(numbers[0], numbers[0] + len(numbers))
    return whole if numbers == [*whole] else np.array(numbers, np.int64)


ORDERS = st.lists(st.lists(st.integers(0, 40), max_size=9), max_size=30)


@given(ORDERS, st.integers(1, 12), st.integers(1, 6))
def test_pages_of_any_size_say_the_same(pushes: list[list[int]], page: int, kept: int) -> None:
    """Numbers are released in any order, some at a time: each gets the next ID, and the newest ones are known."""
    book, order, events = Arrivals(kept_pushes=kept, page=page), list[int](), list[tuple[int, int, int]]()
    waiting: list[int] = []
    views = []
    for sequence, keys in enumerate(pushes):
        first = book.add(sequence, len(keys))
        events.append((sequence, first, len(keys)))
        waiting = sorted([*waiting, *range(first, first + len(keys))], key=lambda number: (number * 7919) % 13)
        ready, waiting = waiting[: sum(keys) % 9], waiting[sum(keys) % 9 :]
        if ready:
            book.release(len(order), np.array(ready, np.int64) if len(ready) % 2 else as_range(ready))
            order += ready
        view = book.view((np.array(waiting, np.int64),))
        book.check(view.waiting)
        views.append((view, list(order), list(waiting), list(events)))
    for view, released, left, known in views:  # a view stays as it was
        for sequence, first, count in known[-kept:]:
            assert view.push(sequence) == (first, count)
            ids = view.ids(first, count).tolist()
            for number, tuple_id in zip(range(first, first + count), ids, strict=True):
                wanted = WAITS if number in left else released.index(number)
                old = number in released and len(released) - wanted > arrivals.KEPT_PAGES * page // 2
                assert tuple_id == wanted or (old and tuple_id == UNKNOWN)
        assert view.push(len(pushes) + 5) is None


@pytest.mark.long
def test_streams_in_order_keep_one_pair_of_numbers_however_long() -> None:
    soup = made(EVENT_TIME)
    for second in range(0, 3_000, 10):
        timed(soup, second, list(range(second, second + 10)))
    soup.heartbeat("s", 3_000 * SECOND)
    view = soup.engine.snapshot().stream("s", "default").arrivals
    assert [(page.first_id, page.numbers) for page in view.pages] == [(0, range(3_000))]


@pytest.mark.long
def test_what_is_kept_is_bounded_and_goes_with_its_tuples() -> None:
    soup = made(EVENT_TIME + " RETENTION 100 ROWS")
    pushed = [timed(soup, second, [second + 3, second + 1, second + 2]) for second in range(0, 3_000, 3)]
    soup.heartbeat("s", 3_100 * SECOND)
    soup.check()
    view = soup.engine.snapshot().stream("s", "default").arrivals
    assert len(pushed) == 1_000
    assert sum(len(page.numbers) for page in view.pages[:-1]) == 0  # those of tuples that are gone
    assert soup.tuple_ids("s", pushed[-1]) == [2_999, 2_997, 2_998]
    many = Arrivals(kept_pushes=10)
    for sequence in range(100):
        many.add(sequence, 2)
    known = many.view(())
    assert (known.push(50), known.push(99), known.known <= 20) == (None, (198, 2), True)
    large = Arrivals(page=64)
    for start in range(0, 10_000, 10):
        large.add(start, 10)
        large.release(start, np.arange(start + 9, start - 1, -1))
    large.check(())
    kept = large.view(())
    assert sum(len(page.numbers) for page in kept.pages) <= (arrivals.KEPT_PAGES + 2) * 64
    assert kept.ids(9_990, 10).tolist() == [*range(9_999, 9_989, -1)]
    assert set(kept.ids(0, 10).tolist()) == {UNKNOWN}
