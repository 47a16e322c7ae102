"""Derived streams that share nothing: their plans only look alike, or they are of different tenants."""

from __future__ import annotations

from psoup.events.tenants import CreateTenant, Quotas
from psoup.local import LocalPSoup
from psoup.pumps import Pump
from psoup.work.clock import VirtualClock
from psoup_testing.engines.derived_rows import SECOND, TIMED, rows, shown

DISTINCT = "(SELECT DISTINCT k FROM e [RANGE 10 SECONDS])"
ALIKE = """
    SELECT b FROM (SELECT k AS b, v AS c FROM g) AS d
    SELECT b FROM (SELECT k AS c, v AS b FROM g) AS d
    SELECT v * 0e0 AS n FROM g
    SELECT v * -0e0 AS n FROM g
    SELECT k FROM g WHERE k // 2 = 1
    SELECT k FROM g WHERE k / 2.0 = 1
    SELECT k FROM g WHERE k / 2.0 = 1 OR v > 3
    SELECT a.k FROM g AS a, g AS b WHERE a.k < b.k
    SELECT b.k FROM g AS a, g AS b WHERE a.k < b.k
    SELECT a.k FROM g AS a, g AS b WHERE a.k < b.v
    SELECT a.k FROM g AS a LEFT JOIN g AS b ON a.k < b.v
    SELECT a.k FROM g AS a LEFT JOIN g AS b ON a.k < b.v AND a.v > 2
    SELECT a.k FROM g AS a WHERE EXISTS (SELECT 1 FROM g AS b WHERE a.k < b.v)
    SELECT a.k FROM g AS a WHERE NOT EXISTS (SELECT 1 FROM g AS b WHERE a.k < b.v)
    SELECT k FROM g WHERE k IN (SELECT k FROM g WHERE v > 2)
    SELECT k FROM g WHERE k IN (SELECT k FROM g WHERE v > 3)
    SELECT k FROM g WHERE t = 'a'
    SELECT k FROM g WHERE t = 'A'
    SELECT k FROM g ORDER BY k LIMIT 3
    SELECT k FROM g ORDER BY k DESC LIMIT 3
    SELECT k FROM g ORDER BY v LIMIT 3
    SELECT k FROM g ORDER BY k LIMIT 3 OFFSET 1
    SELECT k FROM g [RANGE 1 SECOND]
    SELECT k FROM g [RANGE 2 SECONDS]
    SELECT k FROM g [ROWS 2]
    SELECT k FROM g [PARTITION BY k ROWS 2]
    SELECT k FROM g [PARTITION BY t ROWS 2]
    SELECT k, count(*) AS n FROM g GROUP BY k HAVING count(*) > 1
    SELECT k, count(*) AS n FROM g GROUP BY k HAVING count(*) > 2
    SELECT k, count(v) AS n FROM g GROUP BY k HAVING count(*) > 2
    SELECT k, count(DISTINCT v) AS n FROM g GROUP BY k HAVING count(*) > 2
    SELECT k, sum(v) OVER (PARTITION BY k ORDER BY v) AS n FROM g
    SELECT k, sum(v) OVER (PARTITION BY t ORDER BY v) AS n FROM g
    SELECT k, max(v) OVER (PARTITION BY t ORDER BY v) AS n FROM g
    SELECT k FROM g UNION SELECT CAST(v AS BIGINT) FROM g
    SELECT k FROM g UNION ALL SELECT CAST(v AS BIGINT) FROM g
    SELECT k FROM g EXCEPT SELECT CAST(v AS BIGINT) FROM g
    SELECT CAST(v AS BIGINT) AS k FROM g EXCEPT SELECT k FROM g
    SELECT g.k FROM g JOIN (VALUES (1), (2)) AS d (n) ON g.k = d.n
    SELECT g.k FROM g JOIN (VALUES (1), (3)) AS d (n) ON g.k = d.n
    SELECT k - (SELECT max(k) FROM g) AS n FROM g
    SELECT k - (SELECT min(k) FROM g) AS n FROM g
    SELECT k FROM g END (NOW - 1 SECOND)
    SELECT k FROM h
"""


def test_plans_that_look_alike_share_nothing() -> None:
    """No two of the SELECTs have the same rows."""
    soup = LocalPSoup(clock=VirtualClock(1_000 * SECOND), verify="all")
    soup._pumps.run = lambda *_: 0  # type: ignore[method-assign]
    for name in "gh":
        soup.execute(f"CREATE STREAM {name} (k BIGINT, v DOUBLE, t TEXT, at TIMESTAMP) TIMESTAMP BY at")
    selects = ALIKE.strip().splitlines()
    for number, select in enumerate(selects):
        soup.execute(f"CREATE STREAM x{number} AS RSTREAM ({select}) EVERY 1 SECOND STATE AT MOST 9 MB")
    soup._pumps.due(soup.engine.snapshot(), soup.clock.now())
    assert len(soup._pumps.by_id) == len(selects)
    first = dict[int, str]()
    for pump, select in zip(soup._pumps.by_id.values(), selects, strict=True):
        assert pump._plan is not None
        assert first.setdefault(id(pump._plan), select) == select


def _pump(soup: LocalPSoup, tenant: str) -> Pump:
    return next(pump for pump in soup._pumps.by_id.values() if pump.tenant == tenant)


def test_streams_of_different_tenants_share_nothing() -> None:
    """A tenant does not see the streams of another tenant, and is not charged for them."""
    soup = LocalPSoup(clock=VirtualClock(1_000 * SECOND), verify="all")
    for tenant in ("acme", "other"):
        soup.submit(CreateTenant(tenant, Quotas()))
        soup.tenant = tenant
        soup.execute(f"CREATE STREAM e {TIMED}")
        for name in ("x", "y") if tenant == "acme" else ("x",):
            soup.execute(f"CREATE STREAM {name} AS {DISTINCT}")
    for tenant in ("acme", "other"):
        soup.tenant = tenant
        soup.push("e", rows(*[(at, at / 10) for at in range(50)]))
        assert len(shown(soup, "x")) == 49
    first, other = _pump(soup, "acme"), _pump(soup, "other")
    assert other._plan is not first._plan and other._kept is not first._kept
    assert (other.progress.equal, first.progress.equal) == (0, 1)
    room = soup._pumps._room
    assert room.held_by("acme") == first.state_bytes > 0 and room.held_by("other") == other.state_bytes > 0
    (said,) = [line for line in soup.explain(soup.register("SELECT k FROM x")).lines() if "tuples read" in line]
    assert "equal plan" not in said
