"""Random derived streams whose SELECT has an operator with state, over streams with the columns k, v, w and stamp."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from psoup_testing.oracles.answers_at_instants import Answers, Windowed

Random = np.random.Generator
Template = str | tuple[str, dict[str, int]]
"""A template of `Answers`, and for sources without brackets how many seconds late they are read."""
NEVER = 10**6
"""A width in seconds that keeps all tuples."""


class Stateful:
    """A random derived stream: its statement, and its answers at all instants. `leaves`: whether it is a DSTREAM."""

    def __init__(self, random: Random, retention: Mapping[str, int], name: str) -> None:
        """`retention`: the seconds for which each stream keeps its tuples."""
        self.name = name
        kind = KINDS[int(random.integers(len(KINDS)))]
        self.leaves = bool(random.random() < 0.4) or kind is plain
        template, lates = kind(random), dict[str, int]()
        if isinstance(template, tuple):
            template, lates = template
        streams = random.choice(list(retention), 3)
        aliases = [alias for alias in "abc" if "{" + alias + "}" in template]
        sources = {
            alias: window(random, str(stream), retention) for alias, stream in zip(aliases, streams, strict=False)
        }
        self.answers = Answers(template, sources)
        operator = "DSTREAM" if self.leaves else "ISTREAM"
        limit = " STATE AT MOST 64 MB" if lates else ""
        self.statement = f"CREATE STREAM {name} AS {operator} ({self.answers.select}){limit}"


def window(random: Random, stream: str, retention: Mapping[str, int]) -> Windowed:
    """Return a window of some seconds, which may end before NOW."""
    width = int(random.choice([0, 2, 3, 10]))
    late = int(random.choice([0, 0, 0, 1, 3]))
    return Windowed(stream, min(late, width, retention[stream]), width, retention[stream])


def condition(random: Random, alias: str) -> str:
    """Return a condition on one source."""
    return str(
        random.choice(
            [
                "TRUE",
                f"{alias}.v > 2",
                f"{alias}.k BETWEEN 1 AND 3",
                f"({alias}.w LIKE 'a%' OR {alias}.v IS NULL)",
                f"{alias}.v + {alias}.k < 6",
                f"{alias}.w <> 'b'",
            ]
        )
    )


def columns(random: Random, alias: str) -> str:
    """Return the text of one or two columns of a source. The second column is computed."""
    first = f"{alias}.{random.choice(['k', 'v', 'w'])} AS c"
    return str(random.choice([first, f"{first}, {alias}.k % 2 AS d", f"{first}, {alias}.v * 2 AS d"]))


def distinct(random: Random) -> str:
    return f"SELECT DISTINCT {columns(random, 'a')} FROM {{a}} WHERE {condition(random, 'a')}"


def distinct_join(random: Random) -> str:
    where = f"a.k = b.k AND {condition(random, 'a')} AND {condition(random, 'b')}"
    return f"SELECT DISTINCT a.w AS c, b.{random.choice(['k', 'v'])} AS d FROM {{a}}, {{b}} WHERE {where}"


def union(random: Random) -> str:
    column = random.choice(["k", "v", "w"])
    selects = [f"SELECT {alias}.{column} AS c FROM {{{alias}}} WHERE {condition(random, alias)}" for alias in "abc"]
    return " UNION ".join(selects[: int(random.integers(2, 4))])


def set_operation(random: Random) -> str:
    operator = random.choice(["EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"])
    column = random.choice(["k", "v", "w"])
    selects = [f"SELECT {alias}.{column} AS c FROM {{{alias}}} WHERE {condition(random, alias)}" for alias in "ab"]
    return f" {operator} ".join(selects)


def union_all(random: Random) -> Template:
    """With windows, or with sources whose rows may never leave."""
    template = union(random).replace("UNION", "UNION ALL")
    return template if random.random() < 0.6 else (template, {"b": 0})


def plain(random: Random) -> str:
    """Without state: a DSTREAM, unless the test says otherwise."""
    return f"SELECT {columns(random, 'a')} FROM {{a}} WHERE {condition(random, 'a')}"


def exists(random: Random) -> str:
    """With equal keys alone, or with other conditions."""
    negation = random.choice(["", "NOT "])
    more = random.choice(["", " AND b.v > a.v", " AND b.stamp >= a.stamp", " AND a.w = b.w AND b.v + a.v > 4"])
    inner = f"SELECT 1 FROM {{b}} WHERE b.k = a.k AND {condition(random, 'b')}{more}"
    return f"SELECT {columns(random, 'a')} FROM {{a}} WHERE {condition(random, 'a')} AND {negation}EXISTS ({inner})"


def joined_exists(random: Random) -> str:
    negation = random.choice(["", "NOT "])
    inner = f"SELECT 1 FROM {{c}} WHERE c.k = b.k{random.choice(['', ' AND c.v > a.v'])}"
    where = f"a.k = b.k AND {condition(random, 'a')} AND {negation}EXISTS ({inner})"
    return f"SELECT a.w AS c, b.v AS d FROM {{a}}, {{b}} WHERE {where}"


def member(random: Random) -> str:
    negation, column = random.choice(["", "NOT "]), random.choice(["k", "v", "w"])
    inner = f"SELECT b.{column} FROM {{b}} WHERE {condition(random, 'b')}{random.choice(['', ' AND b.k = a.k'])}"
    return (
        f"SELECT {columns(random, 'a')} FROM {{a}} WHERE {condition(random, 'a')} AND a.{column} {negation}IN ({inner})"
    )


def left_join(random: Random) -> str:
    more = random.choice(["", " AND b.v > 2", " AND a.v > 2", " AND a.w = b.w"])
    where = random.choice(["TRUE", "a.v < 5", "b.w IS NULL", "a.v < 5 AND b.v IS NULL", "coalesce(b.v, a.v) > 3"])
    return f"SELECT a.w AS c, b.v AS d, b.k + 1 AS e FROM {{a}} LEFT JOIN {{b}} ON a.k = b.k{more} WHERE {where}"


def banded(random: Random) -> Template:
    """An EXISTS, an absence or a LEFT JOIN with a band: the last two are certain at the end of the band."""
    low, high = int(random.integers(-3, 3)), int(random.integers(0, 6))
    first = f"a.stamp {'+' if low >= 0 else '-'} INTERVAL {abs(low)} SECONDS"
    band = f"b.stamp >= {first} AND b.stamp <= a.stamp + INTERVAL {high} SECONDS"
    more = random.choice(["", " AND b.v > a.v"])
    kind = random.choice(["EXISTS", "NOT EXISTS", "LEFT"])
    lates = {"a": 0 if kind == "EXISTS" else high, "b": 0}
    if kind == "LEFT":
        return f"SELECT a.w AS c, b.v AS d FROM {{a}} LEFT JOIN {{b}} ON a.k = b.k AND {band}{more}", lates
    inner = f"SELECT 1 FROM {{b}} WHERE b.k = a.k AND {band}{more}"
    where = f"{condition(random, 'a')} AND {kind} ({inner})"
    return f"SELECT {columns(random, 'a')} FROM {{a}} WHERE {where}", lates


def grouped(random: Random) -> str:
    """With keys or without, with HAVING or without."""
    measures = [f"{random.choice(MEASURES)} AS m{at}" for at in range(int(random.integers(1, 4)))]
    key = str(random.choice(["a.k", "a.w", "a.k % 2", ""]))
    having = random.choice(["", "", " HAVING count(*) > 2", " HAVING sum(a.v) > 4"])
    select = ", ".join([*([f"{key} AS g"] if key else []), *measures])
    by = f" GROUP BY {key}" if key else ""
    return f"SELECT {select} FROM {{a}} WHERE {condition(random, 'a')}{by}{having}"


def grouped_join(random: Random) -> str:
    where = f"a.k = b.k AND {condition(random, 'a')}"
    return f"SELECT a.w AS g, count(*) AS n, sum(b.v) * 2 AS m FROM {{a}}, {{b}} WHERE {where} GROUP BY a.w"


MEASURES = [
    *("count(*)", "count(a.v)", "sum(a.v)", "avg(a.v)", "min(a.v)", "max(a.w)", "CAST(sum(a.k) AS BIGINT) + 1"),
    *("count(DISTINCT a.k)", "count(*) FILTER (WHERE a.v > 2)", "median(a.v)"),
]


def nested(random: Random) -> str:
    """An operator with state in a subselect: conditions and columns stand above it."""
    distinct = f"SELECT DISTINCT a.k AS c, a.w AS d FROM {{a}} WHERE {condition(random, 'a')}"
    groups = f"SELECT a.k AS c, count(*) AS d FROM {{a}} WHERE {condition(random, 'a')} GROUP BY a.k"
    both = "SELECT a.k AS c, a.v AS d FROM {a} UNION SELECT b.k AS c, b.v AS d FROM {b}"
    inner = random.choice([distinct, groups, both])
    return f"SELECT s.c % 2 AS e FROM ({inner}) s WHERE s.c {random.choice(['> 1', '< 4', 'IS NOT NULL'])}"


def exists_pair(random: Random) -> str:
    negation = random.choice(["", "NOT "])
    inner = "SELECT 1 FROM {b} JOIN {c} ON b.k = c.k AND c.v > b.v WHERE b.w = a.w"
    return f"SELECT {columns(random, 'a')} FROM {{a}} WHERE {negation}EXISTS ({inner})"


def looked_up(random: Random) -> Template:
    """With the only versions of a table. They hold from the beginning, and say nothing about instants."""
    more = f"{condition(random, 'a')} AND t.n <> 'two'"
    if random.random() < 0.5:
        return f"SELECT DISTINCT t.n AS c, a.w AS d FROM {{a}} JOIN names t{{of}} ON t.k = a.k WHERE {more}"
    inner = "SELECT 1 FROM {b} WHERE b.k = a.k AND b.stamp BETWEEN a.stamp AND a.stamp + INTERVAL 2 SECONDS"
    select = f"SELECT t.n AS c, a.v AS d FROM {{a}} JOIN names t{{of}} ON t.k = a.k WHERE {more}"
    return f"{select} AND NOT EXISTS ({inner})", {"a": 2, "b": 0}


TABLE = "CREATE TABLE names (k BIGINT PRIMARY KEY, n TEXT)"
NAMES = {1: "one", 2: "two", 3: "odd", 4: "odd"}
"""The rows of the table."""


KINDS: list[Callable[[Random], Template]] = [
    *(distinct, distinct, distinct_join, union, union_all, plain),
    *(exists, exists, joined_exists, member, left_join, left_join, banded, banded, banded),
    *(grouped, grouped, grouped, grouped_join, set_operation, set_operation, looked_up, looked_up, nested, exists_pair),
]
