"""A stream with thinned chunks of 64 places: every kind of answer holds exactly the rows that are left.

chunk 0   IDs 0-63     left 3 10 17 … 59     every seventh from 3 on.
chunk 1   IDs 64-127   none left.
chunk 2   IDs 128-191  all left.
chunk 3   IDs 192-219  open.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from psoup.answer.copies.range_plans import Ranged, ranged
from psoup.answer.copies.rows_since import Most, since
from psoup.answer.describe import StreamDescription, describe_stream
from psoup.answer.follow.kept_entries import FollowPlace
from psoup.answer.follow.page import Follower, follow_page
from psoup.answer.follow.told import FollowWanted
from psoup.answer.question import Question
from psoup.config import EngineConfig
from psoup.errors import NotFound, OutOfRange
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.thinning_duel import thin_chunk
from psoup_testing.suite.sweeps import swept

ROWS = 220
STAY = range(3, 60, 7)
LEFT = [*STAY, *range(128, ROWS)]
"""The tuple IDs that are left. The tuple with ID i has the time i seconds, k = i % 10 and v = i."""
CONFIG = EngineConfig(chunk_rows=64, ahead=10_000 * SECOND, shape=EAGER)
WHERE = ("", " WHERE k = 3", " WHERE v < 40 OR v > 140", " WHERE v + k >= 20 AND v < 150")


def _holds(where: str) -> Callable[[int], bool]:
    return {
        WHERE[0]: lambda i: True,
        WHERE[1]: lambda i: i % 10 == 3,
        WHERE[2]: lambda i: i < 40 or i > 140,
        WHERE[3]: lambda i: i + i % 10 >= 20 and i < 150,
    }[where]


QUERIES: dict[str, int] = {}
"""The registered queries of `soup` by their WHERE."""


@pytest.fixture(scope="module")
def soup() -> LocalPSoup:
    """Queries, then tuples, then thinned chunks; results are covered again."""
    soup = made()
    for where in WHERE:
        QUERIES[where] = soup.register(f"SELECT _id, v FROM s{where} BEGIN (START)")
    push(soup, "s", range(ROWS))
    thin(soup)
    soup.check()
    return soup


def made(retention: str = "") -> LocalPSoup:
    """A service without tuples."""
    soup = LocalPSoup(CONFIG, VirtualClock(ROWS * SECOND), verify="all")
    soup.execute(f"CREATE STREAM s (at TIMESTAMP NOT NULL, k BIGINT, v BIGINT) TIMESTAMP BY at{retention}")
    return soup


def push(soup: LocalPSoup, stream: str, ids: range) -> None:
    """Push a tuple for each ID."""
    values = np.array(ids)
    at = pa.array(values * SECOND, pa.timestamp("us", "UTC"))
    soup.push(stream, pa.table({"at": at, "k": values % 10, "v": values}))


def thin(soup: LocalPSoup) -> None:
    """Thin the first two chunks."""
    soup.maintain()
    assert thin_chunk(soup, "s", 0, np.array(STAY)) and thin_chunk(soup, "s", 1, np.array([], np.int64))
    soup.maintain()


def described(soup: LocalPSoup) -> StreamDescription:
    """The description of the stream `s`."""
    return describe_stream(soup.engine.snapshot(), "s", tenant=soup.tenant, now=soup.clock.now())


def rows_of(soup: LocalPSoup, sql: str) -> list[dict[str, object]]:
    """The rows of a registered query, invoked often enough that kept structures serve it, and asked once."""
    query_id = soup.register(sql)
    soup.maintain()
    answers = [soup.invoke(query_id, accept_truncation=True).to_table().to_pylist() for _ in range(4)]
    answers.append(soup.ask(sql, accept_truncation=True).to_table().to_pylist())
    assert answers[1:] == answers[:-1], sql
    return answers[0]


def ids_of(soup: LocalPSoup, sql: str) -> list[object]:
    """The first column of an answer."""
    return [next(iter(row.values())) for row in rows_of(soup, sql)]


seeded = pytest.mark.seeded("an offset of a thinned chunk taken for a row")


@seeded
@pytest.mark.parametrize("where", WHERE)
def test_a_selection_has_the_ids_and_values_of_the_rows_left(soup: LocalPSoup, where: str) -> None:
    wanted = [i for i in LEFT if _holds(where)(i)]
    assert ids_of(soup, f"SELECT _id FROM s{where} BEGIN (START)") == wanted
    assert ids_of(soup, f"SELECT v FROM s{where} BEGIN (START)") == wanted
    assert ids_of(soup, f"SELECT _id + k FROM s{where} BEGIN (START)") == [i + i % 10 for i in wanted]
    assert ids_of(soup, f"SELECT v FROM s{where} ORDER BY k, v DESC BEGIN (START)") == sorted(
        wanted, key=lambda i: (i % 10, -i)
    )
    assert soup.invoke(QUERIES[where]).to_table().column("_id").to_pylist() == wanted


@seeded
@pytest.mark.parametrize("rows", [1, 28, 29, 92, 93, 95, 101, 102, 300])
def test_a_window_of_rows_counts_the_rows_left(soup: LocalPSoup, rows: int) -> None:
    assert ids_of(soup, f"SELECT _id FROM s BEGIN (NOW - {rows} ROWS)") == LEFT[-rows:]
    without = LEFT[-rows:-5] if rows > 5 else []
    if rows > 5:
        assert ids_of(soup, f"SELECT _id FROM s BEGIN (NOW - {rows} ROWS) END (NOW - 5 ROWS)") == without


@seeded
@pytest.mark.parametrize(("begin", "end"), [(0, 16), (17, 17), (18, 128), (59, 63), (60, 127), (100, 150)])
def test_a_window_by_time_begins_and_ends_between_rows_that_left(soup: LocalPSoup, begin: int, end: int) -> None:
    assert ids_of(soup, f"SELECT _id FROM s BEGIN {begin} END {end}") == [i for i in LEFT if begin <= i <= end]


@seeded
@pytest.mark.parametrize("where", WHERE)
def test_aggregates_fold_the_rows_left(soup: LocalPSoup, where: str) -> None:
    for begin, end in ((5, 215), (30, 200), (64, 127)):
        wanted = [i for i in LEFT if _holds(where)(i) and begin <= i <= end]
        sql = f"SELECT count(*), sum(v), min(v), max(v) FROM s{where} BEGIN {begin} END {end}"
        expected = [len(wanted), sum(wanted) if wanted else None, min(wanted, default=None), max(wanted, default=None)]
        (row,) = rows_of(soup, sql)
        assert [*row.values()] == expected, sql
        grouped = f"SELECT k, count(*) AS n FROM s{where} GROUP BY k ORDER BY k BEGIN {begin} END {end}"
        counts = {k: sum(i % 10 == k for i in wanted) for k in range(10)}
        rows = rows_of(soup, grouped)
        assert {row["k"]: row["n"] for row in rows} == {k: n for k, n in counts.items() if n}, grouped


@seeded
def test_a_fold_that_was_kept_before_a_thinning_answers_no_more() -> None:
    soup = made()
    push(soup, "s", range(ROWS))
    soup.maintain()
    sql, table = "SELECT sum(v) AS a FROM s BEGIN (START)", "SELECT sum(v) AS a FROM s WHERE k = ? BEGIN (START)"
    queries = soup.register_many(table, [[k] for k in range(10)])
    query_id = soup.register(sql)
    for _ in range(4):
        assert soup.invoke(query_id).to_table().to_pylist() == [{"a": sum(range(ROWS))}]
        soup.invoke_table(queries).to_table()
    thin(soup)
    for _ in range(4):
        assert soup.invoke(query_id).to_table().to_pylist() == [{"a": sum(LEFT)}]
    for _ in range(3):
        sums = soup.invoke_table(queries).to_table().column("a").to_pylist()
        assert sums == [sum(i for i in LEFT if i % 10 == k) for k in range(10)]
    soup.check()


@seeded
def test_a_join_meets_the_rows_left_also_from_kept_pairs() -> None:
    soup = made()
    soup.execute("CREATE STREAM o (at TIMESTAMP NOT NULL, k BIGINT, v BIGINT) TIMESTAMP BY at")
    sql = "SELECT a._id AS x, b.v AS y FROM s a, o b WHERE a.v = b.v AND b.k < 8 BEGIN (START)"
    query = soup.register(sql, keep_pairs=True)
    push(soup, "s", range(ROWS))
    push(soup, "o", range(ROWS))
    soup.maintain()
    thin(soup)
    without_kept_pairs = sql.replace("WHERE", "WHERE a.k = b.k AND")
    cut = [text.replace("BEGIN (START)", "BEGIN 10 END 150") for text in (sql, without_kept_pairs)]
    for text in (sql, *cut, sql.replace("(START)", "(NOW - 95 ROWS)")):
        last = [i for i in LEFT if i in range(ROWS - 95, ROWS)]
        wanted = LEFT if "(START)" in text else [i for i in LEFT if 10 <= i <= 150] if "END" in text else last
        pairs = [(i, i) for i in wanted if i % 10 < 8]
        assert sorted((row["x"], row["y"]) for row in rows_of(soup, text)) == pairs, text  # type: ignore[type-var]
    assert sorted(soup.invoke(query).to_table().column("x").to_pylist()) == [i for i in LEFT if i % 10 < 8]
    soup.check()


@seeded
@pytest.mark.parametrize("join", ["LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "JOIN"])
def test_joins_of_a_thinned_stream_with_itself_give_its_tuple_ids(soup: LocalPSoup, join: str) -> None:
    sql = f"SELECT a._id AS x, b._id AS y FROM s a {join} s b ON a.v = b.v + 7 ORDER BY x, y BEGIN (START)"
    pairs = [(i, i - 7) for i in LEFT if i - 7 in LEFT]
    lone = [(i, None) for i in LEFT if i - 7 not in LEFT] if join in ("LEFT JOIN", "FULL JOIN") else []
    lone += [(None, i) for i in LEFT if i + 7 not in LEFT] if join in ("RIGHT JOIN", "FULL JOIN") else []
    ids = [(row["x"], row["y"]) for row in rows_of(soup, sql)]
    assert sorted(ids, key=repr) == sorted([*pairs, *lone], key=repr)


@seeded
def test_tables_of_many_queries_hold_the_rows_left(soup: LocalPSoup) -> None:
    for begin, end in ((0, 219), (5, 40), (20, 200)):
        inside = [i for i in LEFT if begin <= i <= end]
        for show, wanted in (
            ("v", [[i for i in inside if i % 10 == k] for k in range(10)]),
            ("sum(v)", [[sum(i for i in inside if i % 10 == k)] for k in range(10)]),
        ):
            sql = f"SELECT {show} AS a FROM s WHERE k = ? BEGIN {begin} END {end}"
            queries = soup.register_many(sql, [[k] for k in range(10)])
            soup.maintain()
            for _ in range(4):
                table = soup.invoke_table(queries).to_table()
                places, values = table.column("_query").to_pylist(), table.column("a").to_pylist()
                rows = [[v or 0 for at, v in zip(places, values, strict=True) if at == k] for k in range(10)]
                assert rows == wanted, sql


@seeded
def test_matches_bits_and_why_know_the_rows_left(soup: LocalPSoup) -> None:
    matched = soup.matches_between("s", 0, ROWS)
    bits = soup.results("s", ids=range(ROWS))
    for i in range(ROWS):
        wanted = sorted(query for where, query in QUERIES.items() if i in LEFT and _holds(where)(i))
        assert [query for query in matched.of(i) if query in QUERIES.values()] == wanted, i
        assert sorted(query for query in QUERIES.values() if bits.of(query)[i]) == wanted, i
    for i in (3, 17, 59, 128, 219):
        assert {q for where, q in QUERIES.items() if _holds(where)(i)} <= {*soup.matches("s", i)}
        assert soup.why(QUERIES[WHERE[0]], i).kept_out is None
    for gone in (0, 4, 63, 64, 127):
        with pytest.raises(NotFound, match=f"tuple {gone} of stream 's' is not kept any more"):
            soup.matches("s", gone)
        with pytest.raises(NotFound, match="is not kept any more"):
            soup.why(QUERIES[WHERE[0]], gone)
    with pytest.raises(OutOfRange):
        soup.matches("s", ROWS)


@seeded
def test_a_description_counts_the_rows_left(soup: LocalPSoup) -> None:
    stream = described(soup)
    assert (stream.tuples, stream.first_id, stream.next_id) == (len(LEFT), 0, ROWS)


@seeded
def test_retention_by_rows_keeps_chunks_until_enough_rows_are_left() -> None:
    soup = made(" RETENTION 200 ROWS")
    push(soup, "s", range(ROWS))
    thin(soup)
    push(soup, "s", range(ROWS, 300))
    assert ids_of(soup, "SELECT _id FROM s BEGIN (START)") == [*LEFT, *range(ROWS, 300)]
    assert described(soup).first_id == 0, "a chunk left although only 181 rows are kept"
    push(soup, "s", range(300, 340))
    assert ids_of(soup, "SELECT _id FROM s BEGIN (START)") == [*range(140, 340)]
    assert described(soup).first_id == 128


@seeded
@pytest.mark.parametrize(
    ("most_rows", "every"),
    swept([(7, False), (10_000, True), (10_000, False), (7, True), (1, True), (1, False)], fast=3),
)
def test_a_follower_is_told_of_the_rows_left(soup: LocalPSoup, every: bool, most_rows: int) -> None:
    query_ids = () if every else (QUERIES[WHERE[0]], QUERIES[WHERE[2]])
    follower, place, pairs = Follower(FollowWanted(query_ids=query_ids, old=True)), FollowPlace(0), []
    snapshot = soup.engine.snapshot()
    view = snapshot.stream("s", soup.tenant)
    while place.next_id < view.next_id:
        page = follow_page(snapshot, view, follower, place, most_rows=most_rows, most_bytes=10**7)
        page_pairs = zip(page.tuple_ids.tolist(), page.queries.tolist(), strict=True)
        pairs += [(i, query) for i, query in page_pairs if query in QUERIES.values()]
        rows = zip(page.tuples["_id"].to_pylist(), page.tuples["v"].to_pylist(), strict=True)
        assert all(i == v for i, v in rows) and (page.place > place)
        place = page.place
    followed = {query: where for where, query in QUERIES.items() if every or query in query_ids}
    assert pairs == sorted((i, query) for i in LEFT for query, where in followed.items() if _holds(where)(i))


@seeded
@pytest.mark.parametrize("oldest_first", [True, False])
@pytest.mark.parametrize("rows", [1, 5, 10_000])
def test_a_copy_gets_the_rows_left_page_by_page(soup: LocalPSoup, rows: int, oldest_first: bool) -> None:
    snapshot, intervals, ids = soup.engine.snapshot(), (), list[int]()
    record = snapshot.query(QUERIES[WHERE[2]], soup.tenant)
    how = ranged(record.query.plan)
    assert isinstance(how, Ranged)
    wanted = [i for i in LEFT if _holds(WHERE[2])(i)]
    for _ in range(ROWS):
        question = Question(soup.clock.now(), accept_truncation=True)
        change = since(snapshot, record, how, intervals, Most(rows, 100), question, oldest_first=oldest_first)
        ids += change.answer.to_table().column(0).to_pylist()
        covered = [i for i in wanted if any(low <= i < high for low, high in change.have)]
        assert sorted(ids) == covered, "the intervals stand for other tuples than were sent"
        intervals = change.have
        if change.complete:
            break
    assert sorted(ids) == wanted
