"""IDs after a promotion come from a range of their own, and queries of several ranges are used together."""

from __future__ import annotations

import pyarrow as pa
import pytest

from psoup.errors import NotFound
from psoup.events.commands import RegisterMany
from psoup.events.tags import TagColumns, coded
from psoup.events.webhooks import AddWebhook, added_by
from psoup.local import LocalPSoup
from psoup.plan.sides import FIRST_SIDE
from psoup_testing.oracles.questions import again

JOIN = "SELECT s.x, t.y FROM s, t WHERE s.x = t.y AND s.x > 1"


def register_some(soup: LocalPSoup, name: str) -> list[int]:
    """Queries one by one, in a block with keys and labels, and a join."""
    ids = [soup.register("SELECT x FROM s WHERE x > 1", key=f"{name} alone", labels={"user": "u"})]
    rows = [[1], [2], [3]]
    tags = TagColumns(3, pa.array([f"{name} {row}" for row in range(3)]), (("user", coded(pa.array(["u", "u", "v"]))),))
    soup.submit(RegisterMany(["SELECT x FROM s WHERE x = ?"], rows, tags=tags))
    ids += [soup.query(f"{name} {row}") for row in range(3)]
    return [*ids, soup.register(JOIN, key=f"{name} joined")]


@pytest.mark.parametrize("promotions", [1, 255])
def test_queries_of_several_ranges_are_used_together(promotions: int) -> None:
    soup = LocalPSoup()
    soup.execute("CREATE STREAM s (x BIGINT)")
    soup.execute("CREATE STREAM t (y BIGINT)")
    earlier = register_some(soup, "earlier")
    soup.push("s", pa.table({"x": [1, 2, 3]}))
    soup.admission.ids.begin(promotions)
    later = register_some(soup, "later")
    assert later == [promotions * 2**32 + number for number in range(5)] and later[-1] < FIRST_SIDE
    soup.push("s", pa.table({"x": [2]}))
    soup.push("t", pa.table({"y": [3, 2]}))
    for query_ids in (earlier, later):
        answers = [again(soup.invoke, query_id).to_table()["x"].to_pylist() for query_id in query_ids]
        assert answers == [[2, 3, 2], [1], [2, 2], [3], [2, 3, 2]]
    assert soup.matches("s", 3) == [earlier[0], earlier[2], later[0], later[2]]
    assert soup.queries(labels={"user": "u"}) == [*earlier[:3], *later[:3]]
    table = soup.invoke_table([earlier[1], later[3]])
    assert table is not None
    soup.unregister_many([earlier[0], later[0], later[4]])
    assert soup.matches("s", 3) == [earlier[2], later[2]]
    with pytest.raises(NotFound):
        soup.invoke(later[4])
    with pytest.raises(NotFound):
        soup.invoke(2**32 * promotions - 1)
    assert soup.admission.ids.range == promotions
    soup.check()


def test_streams_and_webhooks_have_ranges_too() -> None:
    soup = LocalPSoup()
    soup.execute("CREATE STREAM s (x BIGINT)")
    soup.register("SELECT x FROM s", key="k")
    first = soup.submit(AddWebhook("k", "https://example.com/1", "secret"))
    soup.admission.ids.begin(255)
    soup.execute("CREATE STREAM t (x BIGINT)")
    second = soup.submit(AddWebhook("k", "https://example.com/2", "secret"))
    soup.push("t", pa.table({"x": [1]}))
    snapshot = soup.engine.snapshot()
    assert sorted(snapshot.by_id) == [1, 255 * 2**20] and 255 * 2**20 < 2**31
    assert sorted(snapshot.webhooks) == [first.sequence, 255 * 2**40 + second.sequence]
    added = added_by(snapshot.webhooks.values(), second.sequence)
    assert added is not None and added.url == "https://example.com/2"
    assert len(str(255 * 2**40)) <= 18, "the digits of an ID on the wire"
    assert soup.ask("SELECT x FROM t").to_table()["x"].to_pylist() == [1]
    soup.check()


def test_ids_never_go_back() -> None:
    soup = LocalPSoup()
    soup.admission.ids.begin(2)
    soup.execute("CREATE STREAM s (x BIGINT)")
    query_id = soup.register("SELECT x FROM s")
    soup.admission.ids.begin(2)
    assert soup.register("SELECT x FROM s") == query_id + 1
