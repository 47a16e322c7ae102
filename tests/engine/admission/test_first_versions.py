"""First versions of keys below the watermark: which rows are late, and what answers of before say about them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.errors import FailedPrecondition, RowsRefused
from psoup.events.acknowledgements import PushAcknowledgement
from psoup.events.commands import Push
from psoup.local import LocalPSoup
from psoup.model import DAY, SECOND
from psoup.work.clock import VirtualClock
from psoup_testing.histories.histories import EAGER

START = 100 * DAY
JOIN = "SELECT o.n, p.price FROM orders o {kind} prices p AS OF o ON p.k = o.k"


def made(options: str = "") -> LocalPSoup:
    soup = LocalPSoup(EngineConfig(chunk_rows=64, shape=EAGER, ahead=1_000 * DAY), VirtualClock(START + 30 * DAY))
    soup.execute(f"CREATE TABLE prices (k TEXT, price BIGINT, at TIMESTAMP, PRIMARY KEY (k)) TIMESTAMP BY at {options}")
    soup.execute("CREATE STREAM orders (n BIGINT, k TEXT, at TIMESTAMP) TIMESTAMP BY at")
    return soup


def batch(*rows: tuple[str, int | None, int]) -> pa.Table:
    """Prices: the key, the price or None for a deletion, and the seconds after START."""
    return pa.table(
        {
            "k": [k for k, *_ in rows],
            "price": pa.array([price for _, price, _ in rows], pa.int64()),
            "at": pa.array([START + at * SECOND for *_, at in rows], pa.timestamp("us")),
            "_deleted": [price is None for _, price, _ in rows],
        }
    )


def order(soup: LocalPSoup, *rows: tuple[int, str, int]) -> None:
    at = pa.array([START + at * SECOND for *_, at in rows], pa.timestamp("us"))
    soup.push("orders", pa.table({"n": [n for n, *_ in rows], "k": [k for _, k, _ in rows], "at": at}))


def pushed(soup: LocalPSoup, *rows: tuple[str, int | None, int]) -> PushAcknowledgement:
    return soup.push("prices", batch(*rows), refused="count")


def asked(soup: LocalPSoup, text: str, **options: int) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in soup.ask(text, **options).to_table().to_pylist()]


def test_a_key_without_a_version_is_never_late() -> None:
    """All rows of one batch of a new key are taken, in the order of their times. Later the key is known."""
    soup = made()
    pushed(soup, ("a", 1, 10))
    done = pushed(soup, ("a", 2, 5), ("b", 3, 7), ("b", 4, 2), ("c", None, 4), ("a", 9, 10), ("b", 5, 12))
    assert (done.accepted, done.late, done.late_rows) == (5, 1, (0,))
    assert asked(soup, "SELECT k, price, _time = at AS same FROM prices ORDER BY k") == [("a", 9, True), ("b", 5, True)]
    times = {
        at: asked(soup, "SELECT k, price FROM prices ORDER BY k", as_of=START + at * SECOND) for at in (1, 2, 6, 7, 11)
    }
    assert times == {1: [], 2: [("b", 4)], 6: [("b", 4)], 7: [("b", 3)], 11: [("a", 9), ("b", 3)]}
    assert pushed(soup, ("b", 1, 1), ("c", 1, 1)).late_rows == (0, 1)


def test_a_deleted_key_is_known_until_its_deletion_is_forgotten() -> None:
    soup = made("HISTORY 1 DAY DELETED FOR 2 DAYS")
    pushed(soup, ("a", 1, 10), ("a", None, 20))
    day = DAY // SECOND
    soup.heartbeat("prices", START + 2 * DAY + 20 * SECOND)
    assert pushed(soup, ("a", 2, day)).late == 1
    soup.heartbeat("prices", START + 2 * DAY + 21 * SECOND)
    assert pushed(soup, ("a", 2, day)).accepted == 1
    assert asked(soup, "SELECT k, price FROM prices") == [("a", 2)]
    soup.maintain()
    assert pushed(soup, ("a", 3, day)).late == 1


def test_a_key_of_an_unpublished_push_is_known() -> None:
    """The sequencer is ahead of the writer. A row that waits is not a version yet."""
    soup = made("LATENESS 5 SECONDS")
    pushed(soup, ("w", 1, 14), ("a", 1, 10))  # the watermark is 9: both wait
    behind, events = soup.engine.snapshot(), []
    soup.admission.share_published(lambda: behind)

    def prepared(*rows: tuple[str, int | None, int]) -> PushAcknowledgement:
        answer = soup.admission.prepare(Push("prices", batch(*rows), tenant=soup.tenant), soup.clock.now())
        events.append(answer.event)
        assert isinstance(answer.acknowledgement, PushAcknowledgement)
        return answer.acknowledgement

    assert prepared(("a", 0, 8), ("w", 0, 8)).late == 0
    assert prepared(("b", 1, 18)).late == 0  # now it is 13: the a of 10 is released, and the w of 14 is not
    assert prepared(("a", 5, 7), ("w", 5, 7), ("c", 1, 9), ("b", 1, 12)).late_rows == (0, 1)
    soup.engine.apply([event for event in events if event is not None])
    rows = [("a", 1), ("c", 1), ("w", 0)]
    assert sorted(asked(soup, "SELECT k, price FROM prices WHERE k <> 'b'")) == rows
    soup.engine.check()


def test_joined_pushes_and_whole_pushes() -> None:
    soup = made()
    pushed(soup, ("a", 1, 10))
    with pytest.raises(FailedPrecondition, match="refused alone"):
        soup.admission.prepare(Push("prices", batch(("b", 1, 5)), tenant=soup.tenant, whole=True), soup.clock.now())
    with pytest.raises(
        RowsRefused, match=r"row 1: .* is too late by 0:00:05: .*, and its key has a version"
    ) as refused:
        soup.push("prices", batch(("b", 1, 5), ("a", 1, 5)))
    facts = refused.value.facts
    assert (facts["late"], facts["late_rows"], facts["late_by_key"]) == ("1", "1", "1")
    assert soup.push("prices", batch(("b", 1, 5), ("a", 1, 10))).accepted == 2
    assert soup.why(soup.register("SELECT * FROM prices"), batch(("b", 1, 5))).kept_out is not None
    assert soup.match("prices", batch(("a", 1, 5), ("d", 1, 5))).queries.tolist() != []


@pytest.mark.parametrize("options", ["WATERMARK BY CLOCK", "IDLE AFTER 5 SECONDS", "FIRST VERSION FROM START"])
def test_a_first_version_changes_joins_of_before_which_have_said_so(options: str) -> None:
    soup = made(options)
    pushed(soup, ("a", 1, -40))
    soup.heartbeat("prices", START)
    order(soup, (1, "a", -30), (2, "b", -30), (3, "c", -30), (4, "b", -9), (5, "x", 0))
    query = soup.register(JOIN.format(kind="LEFT JOIN"))
    answer = soup.invoke(query)
    rows = [tuple(row.values()) for row in answer.to_table().to_pylist()]
    assert rows[:4] == [(1, 1), (2, None), (3, None), (4, None)]
    assert (answer.unknown, answer.completeness.final) == (len(rows) - 1, False)
    assert pushed(soup, ("b", 2, -20)).accepted == 1
    first = 2 if "START" in options else None
    assert asked(soup, JOIN.format(kind="LEFT JOIN"))[:4] == [(1, 1), (2, first), (3, None), (4, 2)]
    answer = soup.ask(JOIN.format(kind="JOIN"))
    assert answer.to_table().num_rows == 2 + (first is not None)
    assert answer.unknown == len(rows) - 3


def test_keys_of_several_columns_and_constants_are_counted_as_unknown() -> None:
    soup = made()
    soup.execute("CREATE TABLE t (k TEXT, r BIGINT, v BIGINT, at TIMESTAMP, PRIMARY KEY (k, r)) TIMESTAMP BY at")
    at = pa.array([START, START, START + 9 * SECOND], pa.timestamp("us"))
    soup.push("t", pa.table({"k": ["a", "b", "z"], "r": [1, 2, 9], "v": [7, 8, 9], "at": at}))
    order(soup, (1, "a", 1), (2, "b", 1), (1, "b", 1), (9, "c", 1), (1, "a", 20))
    wanted = {"p.r = o.n": 2, "p.r = 1": 3, "p.r = o.n + 0 AND p.v < 0": 2}
    for condition, count in wanted.items():
        answer = soup.ask(f"SELECT o.n FROM orders o LEFT JOIN t p AS OF o ON p.k = o.k AND {condition}")
        assert (answer.to_table().num_rows, answer.unknown) == (4, count), condition
