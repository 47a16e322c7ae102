"""STREAM (CIDR 2003), section 2: its example queries as printed, over requests to a web proxy; and its default window.

    1    counts the requests for a domain in the last day                                 answered
    2    counts pages among the last ten requests of each client for a domain             answered
    3    joins a relation, and takes a sample of a subquery                               refused: Sample(10)
    -    Select * From S                                                                  the relation, not a stream

The quotes of the print are typographic ones; a refusal names the straight ones.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from psoup.errors import NotSupported, SqlError
from psoup.local import LocalPSoup
from psoup.model import DAY, SECOND
from psoup.plan.patterns import Pattern
from psoup.plan.updates import updates_of
from psoup.work.clock import VirtualClock

FIRST = """Select Count(*)
    From Requests S [Range 1 Day Preceding]
    Where S.domain = ‘stanford.edu’"""
SECOND_QUERY = """Select Count(*)
    From Requests S
    [Partition By S.client_id
    Rows 10 Preceding
    Where S.domain = ‘stanford.edu’]
    Where S.URL Like ‘http://cs.stanford.edu/%’"""
THIRD = """Select T.URL
    From
    (Select client_id, URL
    From Requests S, Domains R
    Where S.domain = R.domain
    And R.type = ’commerce’) T Sample(10)
    Where T.client_id Between 1 And 1000"""

CS, EDU = "http://cs.stanford.edu/a", "http://www.stanford.edu/b"


class Proxy:
    """PSoup with the stream and the relation of the examples, on a clock."""

    def __init__(self) -> None:
        self.clock = VirtualClock(1_000 * DAY)
        self.soup = LocalPSoup(clock=self.clock, verify="all")
        self.soup.execute("CREATE STREAM Requests (client_id BIGINT, domain TEXT, URL TEXT)")
        self.soup.execute("CREATE TABLE Domains (domain TEXT PRIMARY KEY, type TEXT)")

    def request(self, client: int, url: str, domain: str = "stanford.edu") -> None:
        self.soup.push("Requests", pa.table({"client_id": [client], "domain": [domain], "URL": [url]}))

    def classify(self, domain: str, kind: str) -> None:
        self.soup.push("Domains", pa.table({"domain": [domain], "type": [kind]}))

    def values(self, query: int) -> list[object]:
        """The only column of an answer."""
        return self.soup.invoke(query).to_table().columns[0].to_pylist()


@pytest.fixture
def proxy() -> Proxy:
    return Proxy()


def straight(printed: str) -> str:
    """The query with straight quotes."""
    return printed.replace("‘", "'").replace("’", "'")


@pytest.mark.parametrize("printed", [FIRST, SECOND_QUERY, THIRD])
def test_a_typographic_quote_is_refused_with_the_straight_one(proxy: Proxy, printed: str) -> None:
    with pytest.raises(SqlError, match="is not a sign of SQL") as refused:
        proxy.soup.register(printed)
    assert "'k' for a text" in str(refused.value)


def test_the_first_example_counts_the_requests_of_a_day(proxy: Proxy) -> None:
    query = proxy.soup.register(straight(FIRST))
    proxy.request(1, EDU)
    proxy.clock.advance(seconds=DAY // SECOND // 2)
    proxy.request(2, EDU)
    proxy.request(2, EDU, "mit.edu")
    assert proxy.values(query) == [2]
    proxy.clock.advance(seconds=DAY // SECOND // 2 + 1)
    assert proxy.values(query) == [1]


def test_the_second_example_filters_before_the_window_and_after_it(proxy: Proxy) -> None:
    query = proxy.soup.register(straight(SECOND_QUERY))
    for _ in range(3):
        proxy.request(1, CS)
    for _ in range(20):  # not of the domain, so they take no place in the window
        proxy.request(1, EDU, "mit.edu")
    proxy.request(2, CS)
    assert proxy.values(query) == [4]
    for _ in range(8):  # of the domain, so they push pages of the department out
        proxy.request(1, EDU)
    assert proxy.values(query) == [3]  # two of client 1, one of client 2


def test_the_third_example_is_refused_for_its_sample(proxy: Proxy) -> None:
    with pytest.raises(NotSupported, match="SAMPLE is not supported") as refused:
        proxy.soup.register(straight(THIRD))
    assert "T Sample(10)" in str(refused.value)


def test_the_third_example_without_its_sample_joins_the_relation_as_it_is_now(proxy: Proxy) -> None:
    query = proxy.soup.register(straight(THIRD).replace("Sample(10)", ""))
    proxy.request(7, "a", "shop.com")
    proxy.request(1_001, "b", "shop.com")
    proxy.request(8, "c", "press.org")
    assert proxy.values(query) == []
    proxy.classify("shop.com", "commerce")
    proxy.classify("press.org", "news")
    assert proxy.values(query) == ["a"]
    proxy.classify("press.org", "commerce")  # the paper streams requests as they come; here the relation changes
    proxy.classify("shop.com", "news")
    assert proxy.values(query) == ["c"]


@pytest.mark.parametrize("operator", ["Istream", "Dstream", "Rstream"])
def test_operators_from_relations_to_streams_are_no_functions(proxy: Proxy, operator: str) -> None:
    with pytest.raises(SqlError, match=f"there is no function '{operator.lower()}'"):
        proxy.soup.register(f"Select {operator}(*) From Requests [Now]")


@pytest.mark.parametrize(
    ("operator", "rows"),
    [
        ("Istream", [(1, 1), (3, 3), (2, 25), (0, 27)]),
        ("Dstream", [(0, 1), (1, 3), (3, 25), (2, 27)]),
        ("Rstream", [*[(1, at) for at in (1, 2)], *[(3, at) for at in range(3, 25)], (2, 25), (2, 26), (0, 27)]),
    ],
)
def test_operators_over_the_first_example_stream_its_counts(
    proxy: Proxy, operator: str, rows: list[tuple[int, int]]
) -> None:
    """With Istream it "streams a new value each time the count changes". `rows`: counts, and hours."""
    proxy.soup.execute(f"CREATE STREAM counts (n) AS {operator} ({straight(FIRST)}) EVERY 1 HOUR")
    for hours, requests in ((0.5, 1), (2, 2), (25, 0)):
        proxy.clock.advance(seconds=int(hours * 3_600))
        for _ in range(requests):
            proxy.request(1, EDU)
    proxy.soup.maintain()
    table = proxy.soup.ask("SELECT n, epoch_us(_time) AS at FROM counts").to_table().to_pylist()
    hour = DAY // 24
    assert [(row["n"], (row["at"] - 1_000 * DAY) // hour) for row in table] == rows


def test_the_second_example_streams_the_pages_of_the_department(proxy: Proxy) -> None:
    """Its windows are by rows, so only new requests change the count."""
    proxy.soup.execute("CREATE STREAM Kept AS (SELECT * FROM Requests) RETENTION 1 DAY")
    second = straight(SECOND_QUERY).replace("Requests", "Kept")
    proxy.soup.execute(f"CREATE STREAM pages (n) AS Istream ({second}) EVERY 1 SECOND")
    for url in (CS, EDU, CS, *[EDU] * 8):
        proxy.request(1, url)
        proxy.clock.advance(seconds=1)
    proxy.soup.maintain()
    assert [row["n"] for row in proxy.soup.ask("SELECT n FROM pages").to_table().to_pylist()] == [1, 2, 1]


def test_select_all_from_a_stream_gives_the_stream(proxy: Proxy) -> None:
    proxy.soup.execute("CREATE STREAM same AS (Select * From Requests)")
    for client in (1, 2, 2):
        proxy.request(client, EDU)
    streams = [proxy.soup.ask(f"SELECT *, _time FROM {name}").to_table().to_pylist() for name in ("Requests", "same")]
    assert streams[0] == streams[1]
    assert len(streams[0]) == 3


def test_a_select_without_a_window_is_the_relation_of_all_tuples(proxy: Proxy) -> None:
    query = proxy.soup.register("Select client_id From Requests")
    record = proxy.soup.engine.snapshot().query(query, proxy.soup.tenant)
    assert updates_of(record.query.plan).pattern is Pattern.MONOTONIC
    for client in (1, 2):
        proxy.request(client, EDU)
    assert [proxy.values(query), proxy.values(query)] == [[1, 2], [1, 2]]  # nothing is consumed


@pytest.mark.parametrize(
    ("window", "clients"),
    [
        ("[Range 15 Minutes Preceding]", [2, 3, 4]),
        ("[Rows 2 Preceding]", [3, 4]),
        ("[Rows 1 Preceding Where client_id < 4]", [3]),
        ("[Partition By domain Rows 1 Preceding]", [3, 4]),
        ("[Range Unbounded Preceding]", [1, 2, 3, 4]),
        ("[Now]", [4]),
    ],
)
def test_each_window_of_the_language(proxy: Proxy, window: str, clients: list[int]) -> None:
    for client, minutes in ((1, 0), (2, 20), (3, 5), (4, 5)):
        proxy.clock.advance(seconds=60 * minutes)
        proxy.request(client, EDU, "mit.edu" if client == 4 else "stanford.edu")
    query = proxy.soup.register(f"Select client_id From Requests {window}")
    assert proxy.values(query) == clients


@pytest.mark.parametrize(
    "printed", ["Requests Sample(2)", "Requests [Rows 50 Preceding] Sample(2)", "Requests S Sample(2)"]
)
def test_a_sample_is_refused_wherever_it_stands(proxy: Proxy, printed: str) -> None:
    with pytest.raises(NotSupported, match="SAMPLE is not supported"):
        proxy.soup.register(f"Select * From {printed}")
