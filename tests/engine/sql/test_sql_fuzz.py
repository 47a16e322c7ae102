"""Texts at random: whatever is sent, the answer is a bound query or an SqlError, and it comes quickly.

Valid statements are mutated by a few edits: cut, repeat, swap, splice, odd words and odd characters. A failure names
the seed of its round; `PSOUP_TEST_SEED` begins there.
"""

from __future__ import annotations

import random

import pytest

from psoup.errors import SqlError
from psoup.model import StreamSpec
from psoup.plan.canonical import describe_window
from psoup.plan.standing_query import StandingQuery
from psoup.sql import create_stream, drop_stream, first_word, standing_query, window_clause
from psoup_testing.engines.within import within
from psoup_testing.suite.budget import Budget
from psoup_testing.suite.sweeps import swept

SPEC = create_stream(
    "CREATE STREAM Trades (price DECIMAL(10,2), vol INT NOT NULL, sym TEXT, x DOUBLE, t TIMESTAMP, d DATE, f BOOLEAN)"
)
ROUND = 200
"""Texts of one round."""

SLOWEST = 1.0
"""Seconds of processor time for one text."""

STATEMENTS = [
    "SELECT * FROM trades WHERE price > 2.505 AND vol >= 3 AND NOT vol > 10.5",
    "SELECT price*2 p2, vol FROM trades t WHERE t.sym LIKE 'ab%' OR sym = 'x' OR f BEGIN (NOW - 10) END (NOW)",
    "SELECT vol FROM trades WHERE vol + vol > 3 AND (vol = 1 AND x = 2 OR vol = 3 AND x IS NOT NULL) LIMIT 10",
    "SELECT DISTINCT upper(sym) AS s, round(x, 2), CAST(vol AS TEXT), TRY_CAST(sym AS BIGINT), x::DECIMAL(9,2)"
    " FROM trades ORDER BY s DESC NULLS FIRST, 2 BEGIN (START) END TIMESTAMP '2013-07-01'",
    "SELECT trim(both 'x' from sym), substring(sym from 1 for 2) b, extract(hour from t) h, date_trunc('month', t) m,"
    " CASE vol WHEN 1 THEN 'x' ELSE 'y' END k, sym || 'z' z, now() FROM trades WHERE t + INTERVAL '1' DAY > d",
    "SELECT vol FROM trades WHERE x IN (1e3, 2.5, -0.0) AND sym NOT LIKE '%a_b%' ESCAPE '!' AND vol BETWEEN 1 AND 6",
    "SELECT vol FROM trades WHERE CASE WHEN vol > 1 THEN x > 2 ELSE f END END (NOW - 1 DAY) -- comment",
    "SELECT \"vol\", coalesce(sym, 'it''s') /* c */ FROM trades WHERE vol > price - 5 AND t < '2013-01-01'",
    r"SELECT E'it\'s \x41' || $$a'b$$ x FROM trades WHERE sym IN (e'a''b\\', $t$;$$--$t$) AND NOT sym LIKE E'%\_'",
    "SELECT a FROM trades, quotes JOIN u USING (a) WHERE EXISTS (SELECT 1) UNION SELECT 2 GROUP BY 1 HAVING sum(a) > 1",
    "WITH w(a, b) AS (SELECT vol, x FROM trades), v AS (VALUES (1, 2.5), (NULL, 3)) SELECT t.a FROM w t LEFT JOIN v ON"
    " t.a = v.col0 WHERE a NOT IN (SELECT vol FROM (SELECT vol FROM trades GROUP BY vol) [RANGE 1 HOUR] g) LIMIT 5",
    "(SELECT vol FROM trades LIMIT 3) EXCEPT ALL SELECT x FROM trades SEMI JOIN u USING (vol) INTERSECT SELECT 1",
    "CREATE STREAM s (a INT NOT NULL, b DECIMAL(10,2), t TIMESTAMP) TIMESTAMP BY t LATENESS 5 SECONDS IDLE AFTER"
    " 10 MINUTES RETENTION 100 ROWS",
    "BEGIN (NOW - 100 ROWS) END (NOW - 5 ROWS)",
    "BEGIN NOW - INTERVAL '1' DAY END TIMESTAMP '2013-01-01 00:00'",
]
ODD_WORDS = r"""
SELECT FROM WHERE AND OR NOT ( ) , ; ' " -- /* */ CASE WHEN THEN ELSE END BEGIN NOW START ROWS INTERVAL
TIMESTAMP DATE NULL IS IN BETWEEN LIKE ESCAPE + - * / // % || :: . [ ] { } ? : @ $1 = <> < > ! 1 0 -1 1e400
9223372036854775808 0.1 'x' vol price sym _id _time count(*) OVER UNION JOIN ON WITH AS DISTINCT LIMIT ORDER BY
NULLS FIRST CAST INT LATERAL DECIMAL(99,1) ARRAY STRUCT MAP UNNEST VALUES PIVOT -> ->> #> ~ ^ & | << >> => := \
` # é AT TIME ZONE COLLATE IGNORE FILTER WITHIN GROUP QUALIFY FETCH FOR UPDATE INTO TOP ALL ANY
EXISTS IF ILIKE GLOB RLIKE SIMILAR TO OVERLAPS DIV XOR PRIOR CONNECT CREATE STREAM RETENTION LATENESS TABLE
E' e'\' \\' $$ $t$ E'a' $$a$$
"""
WORDS = [*ODD_WORDS.split(), "\u00a0", "\u2028"]
CHARACTERS = "\0\t\n '\"()-;:\x7f\ud800\U0001f600\x1b"


def lookup(name: str) -> StreamSpec | None:
    return SPEC if name.lower() == "trades" else None


def mutate(r: random.Random, text: str) -> str:
    """`text` after one to four edits."""
    for _ in range(r.randint(1, 4)):
        at = r.randrange(len(text) + 1)
        to = min(len(text), at + r.randrange(1, 12))
        kind = r.randrange(7)
        if kind == 0:
            text = text[:at] + text[to:]
        elif kind == 1:
            text = f"{text[:at]} {r.choice(WORDS)} {text[at:]}"
        elif kind == 2:
            text = text[:at] + r.choice(CHARACTERS + chr(r.randrange(32, 127))) + text[at:]
        elif kind == 3:
            text = text[:at] + text[at:to] * r.randint(2, 30) + text[to:]
        elif kind == 4:
            other = r.choice(STATEMENTS)
            start = r.randrange(len(other))
            text = text[:at] + other[start : start + r.randrange(40)] + text[to:]
        else:
            text = edit_words(r, text)
    return text


def edit_words(r: random.Random, text: str) -> str:
    """`text` with two words swapped or one exchanged."""
    words = text.split(" ")
    one, two = r.randrange(len(words)), r.randrange(len(words))
    if r.random() < 0.5:
        words[one] = r.choice(WORDS)
    else:
        words[one], words[two] = words[two], words[one]
    return " ".join(words)


def read(text: str) -> StandingQuery | None:
    """What the text says, through the entry that fits its first word."""
    if (word := first_word(text)) in ("CREATE", "DROP"):
        (create_stream if word == "CREATE" else drop_stream)(text)
        return None
    if text.lstrip()[:5].upper() == "BEGIN":
        clause = window_clause(text)
        assert window_clause(describe_window(clause)) == clause
        return None
    return standing_query(text, lookup, ("Trades",))


def outcome(text: str) -> StandingQuery | SqlError | None:
    """What the text says, or why it says nothing."""
    try:
        return read(text)
    except SqlError as problem:
        return problem


def check_query(query: StandingQuery) -> None:
    """What every bound query promises."""
    for factor in (factor for selection in query.selections for factor in selection.factors):
        attributes = [term.attribute for term in factor.terms]
        assert len(set(attributes)) == len(attributes)
        for term in factor.terms:
            assert term.intervals or term.nulls
            edges = [edge for i in term.intervals for edge in (i.low, i.high)]
            assert None not in edges[1:-1]
            finite = [edge for edge in edges if edge is not None]
            assert finite == sorted(set(finite))
    assert standing_query(query.text, lookup).selections == query.selections
    assert all(describe_window(source.window).startswith("BEGIN (") for source in query.sources)


@pytest.mark.parametrize("salt", swept(["", "again"], fast=1))
def test_mutated_statements_are_read_or_refused(salt: str) -> None:
    budget = Budget("mutated SQL", cases=2_000)
    read_count = 0
    for seed in budget.rounds():
        r = random.Random(f"{seed}{salt}" if salt else seed)
        for _ in range(ROUND):
            read_count += try_one(mutate(r, r.choice(STATEMENTS)), seed)
        budget.count(ROUND)
    assert 0 < read_count < budget.done // 2


def try_one(text: str, seed: int) -> bool:
    """Whether the text is a statement; fails if it is answered with anything but a query or an SqlError."""
    try:
        query = within(SLOWEST, lambda: outcome(text))
    except Exception as problem:
        pytest.fail(f"seed {seed}: {text!r} raised {problem!r}")
    if isinstance(query, SqlError):
        assert query.line >= 1
        assert query.excerpt.endswith("^")
        return False
    if query is not None:
        check_query(query)
    return True


@pytest.mark.parametrize("word", swept(filter(str.isalpha, WORDS), fast=range(0, len(WORDS), 25)))
def test_one_word_repeated(word: str) -> None:
    for text in (
        f"{word} " * 5_000,
        f"SELECT {f'{word} ' * 2_000}",
        f"SELECT vol FROM trades WHERE {f'{word} ' * 2_000}",
    ):
        assert isinstance(within(SLOWEST, lambda: outcome(text)), SqlError)  # noqa: B023 called at once
