"""UPDATE, DELETE and their like: refused with the push that does it for a table, and with CREATE TABLE for a stream."""

from __future__ import annotations

import pytest

from psoup.errors import SqlError
from psoup.local import LocalPSoup

UPSERT = 'rows of a table change by a push: psoup push ads FILE, upsert("ads", rows)'
DELETE = 'rows of a table are deleted by key: psoup push --delete ads FILE, delete("ads", keys)'
TABLE = "CREATE TABLE"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("UPDATE ads SET price = 1 WHERE id = 2", UPSERT),
        ('update "ads" set price = 1', UPSERT),
        ("INSERT INTO ADS VALUES (1, 2)", UPSERT),
        ("MERGE INTO ads USING s ON true", UPSERT),
        ("UPSERT INTO ads VALUES (1)", UPSERT),
        ("REPLACE INTO ads VALUES (1)", UPSERT),
        ("DELETE FROM ads WHERE id = 2", DELETE),
        ("TRUNCATE TABLE ads", DELETE),
        ("TRUNCATE ads", DELETE),
        ("UPDATE clicks SET n = 1", f"a stream only grows; for rows that change write {TABLE}"),
        ("DELETE FROM clicks", f"a stream only grows; for rows that change write {TABLE}"),
        ("DELETE FROM nothing", TABLE),
        ("UPDATE", TABLE),
        ("INSERT INTO clicks VALUES (1)", "rows come in by a push"),
        ("MERGE INTO clicks USING s ON true", TABLE),
    ],
)
def test_the_hint_names_the_way_out(text: str, hint: str) -> None:
    local = LocalPSoup()
    local.execute("CREATE TABLE ads (id BIGINT PRIMARY KEY, price DOUBLE)")
    local.execute("CREATE STREAM clicks (n BIGINT)")
    for refused in (lambda: local.ask(text), lambda: local.register(text)):
        with pytest.raises(SqlError) as problem:
            refused()
        assert hint in str(problem.value), problem.value
        assert "is not supported" in str(problem.value) or "cannot begin" in str(problem.value)
