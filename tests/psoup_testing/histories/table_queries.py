"""Random queries over tables, and over tables and a stream, that PSoup and DuckDB read alike.

Each has an order that leaves no choice if it has a LIMIT.
"""

from __future__ import annotations

import random
from datetime import date, timedelta

from psoup_testing.histories.table_histories import KEYS, POOLS, TableShape

EPOCH = date(1970, 1, 1)
CONDITIONS = (
    "{a}v > 0",
    "{a}v IS NULL",
    "{a}w IS NULL",
    "{a}w IS NOT NULL",
    "{a}w = 'a'",
    "{a}v + 1 < 3",
    "NOT ({a}v = 1)",
    "({a}w = 'b' OR {a}p > 1)",
    "{a}p IS NULL",
    "coalesce({a}v, 5) >= 2",
    "{a}v IN (0, 2)",
    "({a}v IS NULL OR {a}v < 2)",
)


def where(draw: random.Random, a: str = "") -> str:
    """The WHERE clause of a query over a table, often none. `a`: the name of the table and a point, or nothing."""
    parts = draw.sample(CONDITIONS, draw.choice((0, 0, 0, 1, 1, 2)))
    return f" WHERE {' AND '.join(part.format(a=a) for part in parts)}" if parts else ""


def alone(draw: random.Random, t: TableShape) -> str:
    """A query over one table."""
    keys, cond = ", ".join(t.keys), where(draw)
    return draw.choice(
        (
            f"SELECT * FROM {t.name}{cond}",
            f"SELECT _id, _time, * FROM {t.name}{cond}",
            f"SELECT {keys}, v + 1 AS more FROM {t.name} WHERE {t.keys[0]} = {literal(draw, t)}",
            f"SELECT count(*) AS c FROM {t.name}{cond}",
            f"SELECT count(*) AS c, count(v) AS d, sum(v % 100) AS e, min(p) AS f, max(w) AS g FROM {t.name}{cond}",
            f"SELECT w, count(*) AS c, max(v) AS d FROM {t.name}{cond} GROUP BY w",
            f"SELECT w, count(*) AS c FROM {t.name}{cond} GROUP BY w HAVING count(*) > 1",
            f"SELECT DISTINCT w FROM {t.name}{cond}",
            f"SELECT DISTINCT v, p FROM {t.name}{cond}",
            f"SELECT {keys}, w FROM {t.name}{cond} ORDER BY {keys} LIMIT {draw.randint(0, 5)} OFFSET 1",
            f"SELECT v, {keys} FROM {t.name}{cond} ORDER BY v DESC NULLS LAST, {keys} LIMIT 3",
            f"SELECT {keys}, row_number() OVER (PARTITION BY w ORDER BY {keys}) AS r FROM {t.name}{cond}",
        )
    )


def literal(draw: random.Random, t: TableShape) -> str:
    """A value of the first column of the key, as text."""
    kind = next(a.type for a in t.columns if a.name == t.keys[0])
    value = draw.choice(POOLS[kind])
    if kind == KEYS[2]:
        assert isinstance(value, int)
        return f"DATE '{EPOCH + timedelta(days=value)}'"
    return f"'{value}'" if kind == KEYS[1] else str(value)


def joined(draw: random.Random, s: TableShape, t: TableShape) -> str:
    """A query over a stream and a table, or over two tables, by columns of one kind."""
    on, a, b = _equal(draw, s, t), s.name, t.name
    other = s.columns[0].name
    both = f"SELECT {a}._id AS i, {b}._id AS j, {a}.{other} AS x, {b}.v AS y FROM"
    cond = where(draw, f"{b}.")
    more = draw.choice(("", "", f" AND {b}.v > 0", f" AND {b}.w IS NULL"))
    have = f"(SELECT 1 FROM {b} WHERE {on}{more})"
    key = on.partition(" = ")
    return draw.choice(
        (
            f"{both} {a} JOIN {b} ON {on}{more}{cond}",
            f"{both} {b} JOIN {a} ON {on}{more}{cond}",
            f"{both} {a} LEFT JOIN {b} ON {on}{more}",
            f"{both} {b} LEFT JOIN {a} ON {on}{more}{cond}",
            f"{both} {a} FULL JOIN {b} ON {on}",
            f"SELECT {a}._id AS i, {a}.{other} AS x FROM {a} WHERE EXISTS {have}",
            f"SELECT {a}._id AS i FROM {a} WHERE NOT EXISTS {have}",
            f"SELECT {a}._id AS i FROM {a} WHERE {key[0]} IN (SELECT {key[2]} FROM {b}{cond})",
            f"SELECT {a}._id AS i FROM {a} WHERE {key[0]} NOT IN (SELECT {key[2]} FROM {b}{cond})",
            f"SELECT {b}._id AS i FROM {b} WHERE NOT EXISTS (SELECT 1 FROM {a} WHERE {on})",
            f"SELECT {b}.w AS w, count(*) AS c FROM {a} JOIN {b} ON {on}{cond} GROUP BY {b}.w",
            f"SELECT {b}.w AS w, count({b}.v) AS c, count(*) AS d FROM {a} LEFT JOIN {b} ON {on} GROUP BY {b}.w",
            f"SELECT count(*) AS c FROM {a} JOIN {b} ON {on}{more}{cond}",
            f"SELECT {key[0]} AS k FROM {a} {_set(draw)} SELECT {key[2]} AS k FROM {b}{cond}",
            f"SELECT {key[2]} AS k FROM {b} {_set(draw)} SELECT {key[0]} AS k FROM {a}",
            f"SELECT x.w AS w, y._id AS j FROM {b} AS x JOIN {b} AS y ON x.w = y.w{where(draw, 'x.')}",
        )
    )


def _set(draw: random.Random) -> str:
    return draw.choice(("UNION ALL", "UNION", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL"))


def _equal(draw: random.Random, s: TableShape, t: TableShape) -> str:
    """An equality of two columns of one kind. The second one is of the table, and often of its key."""
    names = [name for name in t.keys if draw.random() < 0.8] or ["w"]
    pairs = [
        (column.name, other.name)
        for other in t.columns
        if other.name in names
        for column in s.columns
        if column.type == other.type
    ]
    if not pairs:
        return f"{s.name}.{next(a.name for a in s.columns if a.type == KEYS[1])} = {t.name}.w"
    column, other = draw.choice(pairs)
    return f"{s.name}.{column} = {t.name}.{other}"
