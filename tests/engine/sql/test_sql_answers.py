"""Statements over one tuple, asked of PSoup and of DuckDB: literals, casts, rounding, NULL where a type is open.

Families are made by putting every column and constant into every form. What DuckDB refuses is not compared.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import duckdb
import pytest

from psoup.errors import SqlError
from psoup.expressions.evaluate import Scope, evaluate
from psoup.local import LocalPSoup
from psoup.sql import create_stream, standing_query
from psoup.values.from_arrow import columns_from_arrow
from psoup_testing.oracles.questions import again
from psoup_testing.suite.sweeps import in_parts

TYPES = {
    "b": "BIGINT",
    "d": "DOUBLE",
    "m": "DECIMAL(9,2)",
    "t": "TEXT",
    "s": "TIMESTAMP",
    "y": "DATE",
    "f": "BOOLEAN",
}
CONSTANTS = {
    "b": "1",
    "d": "1.5e0",
    "m": "2.25",
    "t": "'x'",
    "s": "TIMESTAMP '2020-01-01 10:00'",
    "y": "DATE '2020-01-01'",
    "f": "TRUE",
}


class Both:
    """One tuple in both systems."""

    def __init__(self) -> None:
        self.duck = duckdb.connect(config={"threads": 1})
        self.duck.execute("SET TimeZone = 'UTC'")
        values = ", ".join(f"CAST({CONSTANTS[name]} AS {kind}) AS {name}" for name, kind in TYPES.items())
        self.duck.execute(f"CREATE TABLE x AS SELECT {values}")
        self.spec = create_stream(f"CREATE STREAM x ({', '.join(f'{name} {kind}' for name, kind in TYPES.items())})")
        self.scope = Scope(columns_from_arrow(self.spec.schema, self.duck.sql("FROM x").to_arrow_table()), 1)

    def theirs(self, expression: str) -> tuple[str | None] | None:
        """The value as text; None if DuckDB refuses."""
        try:
            return self.duck.execute(f"SELECT CAST(({expression}) AS VARCHAR) FROM x").fetchone()
        except duckdb.Error:
            return None

    def mine(self, expression: str) -> str | None:
        query = standing_query(f"SELECT CAST(({expression}) AS TEXT) AS v FROM x", lambda _: self.spec)
        found: str | None = evaluate(query.select[0].expr, self.scope).to_list()[0]
        return found

    def compare(self, expressions: Iterator[str]) -> int:
        """Fail on differences; returns how many were equal."""
        wrong, equal = [], 0
        for expression in dict.fromkeys(expressions):
            wanted = self.theirs(expression)
            if wanted is None:
                continue
            try:
                found = self.mine(expression)
            except SqlError as problem:
                wrong.append(f"{expression}: {wanted[0]!r} in DuckDB, refused here: {problem}")
                continue
            if found != wanted[0]:
                wrong.append(f"{expression}: {wanted[0]!r} in DuckDB, {found!r} here")
            equal += 1
        assert not wrong, f"{len(wrong)} differences\n" + "\n".join(wrong[:60])
        return equal


@pytest.fixture(scope="module")
def both() -> Both:
    return Both()


NULLS = """
{K} IN ({c}, NULL) ; {c} IN ({K}, NULL) ; {c} IN (NULL, {K}) ; {c} NOT IN ({K}, NULL) ; NULL IN ({c}, {K})
NULL IN ({K}) ; {K} IN (NULL) ; NULL IN (NULL) ; {K} IN (NULL, {c}, NULL) ; {c} IN (NULL, NULL)
'1' IN (1, NULL) ; 1 IN ('1', NULL) ; {K} = NULL ; NULL = {K} ; {c} = NULL ; NULL <> {c} ; NULL = NULL
NULL < NULL ; (NULL) = {K} ; NULL::BIGINT = b ; CAST(NULL AS TEXT) = t ; {K} BETWEEN NULL AND {K}
{K} BETWEEN {K} AND NULL ; NULL BETWEEN {K} AND {K} ; {c} BETWEEN NULL AND {K} ; NULL BETWEEN {c} AND {K}
{K} NOT BETWEEN NULL AND {K} ; CASE WHEN {c} = {K} THEN NULL ELSE {K} END ; CASE WHEN f THEN {K} END
CASE WHEN f THEN NULL END ; CASE {c} WHEN NULL THEN {K} WHEN {K} THEN {c} END
CASE NULL WHEN {c} THEN 1 ELSE 2 END ; CASE {K} WHEN NULL THEN 1 WHEN {K} THEN 2 END
CASE WHEN NULL THEN {K} ELSE {c} END ; (CASE WHEN f THEN NULL END) = {K} ; (CASE WHEN f THEN NULL END) = {c}
(CASE WHEN f THEN NULL END) IS NULL ; CASE WHEN f THEN CASE WHEN f THEN NULL END ELSE {K} END
COALESCE(NULL, {c}) ; COALESCE(NULL, {K}) ; COALESCE(NULL, NULL, {c}, {K}) ; COALESCE(NULL, NULL)
COALESCE(NULL, NULL) = {K} ; NULLIF({c}, NULL) ; NULLIF(NULL, {c}) ; NULLIF(NULL, NULL) ; NULLIF({K}, NULL)
NULLIF(NULL, {K}) ; NULLIF(NULL, NULL) = {K} ; GREATEST({c}, NULL) ; GREATEST(NULL, {K}) ; LEAST(NULL, NULL)
LEAST({K}, NULL, {c}) ; GREATEST(NULL, NULL) = {K} ; ifnull(NULL, {c}) ; ifnull({K}, NULL) ; NULL IS NULL
NULL IS NOT NULL ; NOT NULL ; NULL AND f ; f OR NULL ; -NULL ; NULL + {c} ; {c} + NULL ; {c} - NULL
NULL - {c} ; NULL * {c} ; NULL / {c} ; NULL // {c} ; NULL % {c} ; NULL + NULL ; (NULL + NULL) = {K}
{c} = (NULL || NULL) ; NULL || {c} ; {c} || NULL ; NULL || NULL ; concat(NULL, {c}) ; concat(NULL, NULL)
concat(NULL, 'a') = NULL ; NULL LIKE {c} ; {c} LIKE NULL ; {K} LIKE NULL ; NULL LIKE NULL
NULL LIKE 'a' ESCAPE NULL ; {c} LIKE 'x' ESCAPE NULL ; upper(NULL) ; length(NULL) ; substr(NULL, 1)
substr('abc', NULL) ; substr('abc', 1, NULL) ; trim(NULL) ; trim('a', NULL) ; replace('a', NULL, 'b')
replace({c}, 'x', NULL) ; starts_with({c}, NULL) ; contains(NULL, t) ; abs(NULL) ; round(NULL)
round({c}, NULL) ; round(NULL, 1) ; floor(NULL) ; sqrt(NULL) ; power(NULL, 2) ; power({c}, NULL)
"""


@in_parts(4)
def test_null_takes_the_type_of_what_it_meets(both: Both, part: slice) -> None:
    forms = [form for line in NULLS.strip().splitlines() for form in line.split(" ; ")]
    asked = [form.format(c=name, K=CONSTANTS[name]) for form in forms for name in TYPES]
    assert both.compare(iter(asked[part])) > 350 // 4


@in_parts(4)
def test_a_typed_literal_belongs_together_before_a_cast(both: Both, part: slice) -> None:
    typed = ["DATE '2020-1-2'", "TIMESTAMP '2020-01-02 03:04:05'", "BIGINT '7'", "DOUBLE '1.5'", "DECIMAL(5,2) '1.5'"]
    typed += ["TEXT 'x'", "VARCHAR '7'", "BOOLEAN 'true'", "INT '7'"]
    casts = ["::VARCHAR", "::DATE", "::TIMESTAMP", "::DATE::VARCHAR", "::BIGINT", "::DOUBLE::TEXT", "::DECIMAL(9,1)"]
    rest = [
        "",
        " || '!'",
        " + 1",
        " = y",
        " - 1",
        " IS NULL",
        " + INTERVAL '1' DAY",
        " BETWEEN y AND y",
        " IN (NULL, y)",
    ]
    asked = ["".join(parts) for parts in itertools.product(typed, ["", *casts], rest)]
    assert both.compare(iter(asked[part])) > 150 // 4


@in_parts(4)
def test_rounding_carries_into_one_more_digit(both: Both, part: slice) -> None:
    def asked() -> Iterator[str]:
        for precision, scale in [(1, 0), (1, 1), (4, 0), (4, 2), (4, 4), (17, 0), (17, 3), (18, 18)]:
            digits = "9" * precision
            for lead in (digits, "5" + "0" * (precision - 1)):
                value = f"{lead[: precision - scale]}.{lead[precision - scale :]}".rstrip(".")
                number = f"CAST('{value}' AS DECIMAL({precision},{scale}))"
                for places in (-19, -18, -17, -5, -4, -1, 0, 2):
                    yield f"round({number}, {places})"
                    yield f"round(-{number}, {places}) + 1"
                yield from (f"{name}({number})" for name in ("round", "ceil", "floor"))
        yield from (f"round({value}, {places})" for value in (9999, 5, 9223372036854775000) for places in (-1, -4, -18))

    assert both.compare(iter(list(asked())[part])) > 250 // 4


DAYS = ["2020-01-01", "400000-1-1", "1-1-1", "-5-1-1", "0044-03-15 (BC)", "5881580-07-10", "2020/1/2", "2020-02-30"]
GAPS = [" ", "T", "  ", "\t", "", " T"]
CLOCKS = ["10:00", "24:00", "24:00:00", "24:00:00.0", "24:00:00.1", "23:59:59.999999", "1:2:3", "10:", "10::", "10:00:"]
CLOCKS += ["10:00:00.", "10:60", "25:00", "10", "00:00:00.1234567890123", "10:5:.5"]
ZONES = [
    "",
    "",
    "",
    "+02",
    "-02:30",
    "+0230",
    "Z",
    " UTC",
    " utc",
    " Europe/Paris",
    " +02",
    "+2",
    " Z",
    " a b",
    " é",
    " _",
]
ZONES += [" (BC)", "Europe/Paris", "+23:59:59", "+99:99", "  UTC", "\tUTC", " a.b", "UTC", " UTC x"]
TAILS = ["", "", "", " ", "\n", "x"]


def test_a_text_with_a_time_is_the_day_that_is_written(both: Both) -> None:
    r = random.Random(5)
    drawn = [tuple(map(r.choice, (DAYS, GAPS, CLOCKS, ZONES, TAILS))) for _ in range(900)]
    texts = ["".join(parts) for parts in drawn]
    without_zone = {"".join(parts) for parts in drawn if not parts[3]}  # an offset counts here, and names are no times
    both.duck.execute("CREATE OR REPLACE TABLE texts (n BIGINT, t TEXT)")
    both.duck.executemany("INSERT INTO texts VALUES (?, ?)", list(enumerate(texts)))
    soup = LocalPSoup()
    soup.execute("CREATE STREAM texts (n BIGINT, t TEXT)")
    soup.push("texts", both.duck.sql("FROM texts ORDER BY n").to_arrow_table())
    for target, known in (("DATE", set(texts)), ("TIMESTAMP", without_zone)):
        asked = f"SELECT t, CAST(TRY_CAST(t AS {target}) AS TEXT) AS v FROM texts"
        theirs = both.duck.sql(asked.replace("TEXT", "VARCHAR") + " ORDER BY n").fetchall()
        found = again(soup.invoke, soup.register(asked)).to_table().column("v").to_pylist()
        wrong = [(text, there, here) for (text, there), here in zip(theirs, found, strict=True) if there != here]
        assert not [row for row in wrong if row[0] in known]
        assert sum(there is not None for _, there in theirs) > 80


def test_texts_with_escapes_and_in_dollars_say_what_duckdb_reads(both: Both) -> None:
    r = random.Random(7)
    parts = r"\n|\t|\x4|\x41|\101|\7|\q|\'|\\|''|é|\303\251|\u00e9|$$|--|b"
    drawn = ["E'" + "".join(r.choice(parts.split("|")) for _ in range(r.randint(0, 6))) + "'" for _ in range(80)]
    dollars = ["$$$$", r"$$a'b\n$$", "$t$ $$ $T$ $t$", "$é$b$é$ || $$'$$", "t = e'\\x78'", "DATE $$2020-01-01$$"]
    assert both.compare(iter([*drawn, *dollars])) > 70
