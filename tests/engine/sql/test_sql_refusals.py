"""Refusals use the words of the statement: no name of the parser's own, no bare "something"."""

from __future__ import annotations

import inspect
import itertools
import re

from sqlglot import exp

from psoup.errors import SqlError
from psoup_testing.histories.refusals import cases, query
from psoup_testing.suite.sweeps import in_parts

CLASSES = {name for name, kind in vars(exp).items() if inspect.isclass(kind) and re.search("[a-z][A-Z]", name)}
WORDS = """
ADD AFTER AHEAD ALTER AND ANY ALL ARCHIVE AS ASC AT BEGIN BETWEEN BIGINT BOOLEAN BY CASE CAST COLLATE COLUMN CREATE
DATE DAYS DECIMAL DEFAULT DESC DISTINCT DOUBLE ELSE END ESCAPE EXCEPT EXISTS EXTRACT FILTER FIRST FOR FORMAT
FROM GLOB GROUP HAVING IDLE IF ILIKE IN INTERSECT INTERVAL INTO IS JOIN LAST LATENESS LATERAL LIKE LIMIT
MINUTE MINUTES NOT NOW NULL NULLS OFFSET ON OR ORDER OVER PERCENT PIVOT QUALIFY RENAME REPLACE RETENTION ROWS
SAMPLE SECONDS SELECT SET SIMILAR START STREAM SYMMETRIC TABLE TABLESAMPLE TEXT THEN TIES TIME TIMESTAMP TO TRUE
TYPE UNION UPDATE USING VALUE WHEN WHERE WINDOW WITH WITHIN ZONE TRY_CAST UTC SQL JSON FETCH VALUES ASCII
WATERMARK CLOCK
"""
"""Words of SQL that messages use of themselves; any other must be one that was written."""


@in_parts(5)
def test_every_refusal_speaks_the_words_of_the_statement(part: slice) -> None:
    wrong: list[str] = []
    refused = 0
    for statement, read in itertools.islice(cases(), part.start, None, part.step):
        try:
            read()
        except SqlError as problem:
            refused += 1
            wrong += [f"{statement!r}: {fault} in {told(problem)!r}" for fault in faults(statement, problem)]
    assert not wrong, f"{len(wrong)} refusals\n" + "\n".join(wrong[:50])
    assert refused > 1_500 // 5


SQL = frozenset(WORDS.split())


def told(problem: SqlError) -> str:
    """The message without the place, the excerpt and the hint."""
    return re.sub(r"^line \d+, column \d+: ", "", problem.message.splitlines()[0])


def faults(statement: str, problem: SqlError) -> list[str]:
    """What is not clear about a refusal."""
    message = told(problem)
    found = [name for name in re.findall(r"\w+", message) if name in CLASSES]
    found += [
        word
        for word in ("<class", "Token", "Expected", "Expecting", "Required keyword", " object at ")
        if word in message
    ]
    found += ["bare"] if message.startswith("something") else []
    written = {word.upper() for word in re.findall(r"\w+", statement)}
    for word in re.findall(r"\b[A-Z_]{2,}\b", re.sub(r"'[^']*'", "", message)):
        if word not in SQL and word not in written:
            found.append(word)
    if not problem.excerpt.rstrip().endswith("^"):
        found.append("no place")
    return found


def test_a_type_is_named_as_it_was_written() -> None:
    for written in ("HUGEINT", "BLOB", "TIME WITH TIME ZONE", "MAP(INT, INT)"):
        found = refusal(f"SELECT b FROM x WHERE b::{written} = 1")
        assert told(found) == f"the type {written} is not supported"


def test_what_is_missing_is_told_with_its_neighbour() -> None:
    assert told(refusal("SELECT b + FROM x")) == "a value or a name is missing before 'FROM'"
    assert told(refusal("SELECT b FROM x WHERE b >")) == "a value or a name is missing at the end of the statement"
    assert told(refusal("SELECT CAST(b) FROM x")) == "AS is missing before ')'"
    assert told(refusal("SELECT (b FROM x")) == ") is missing before 'FROM'"


def refusal(statement: str) -> SqlError:
    try:
        query(statement)()
    except SqlError as problem:
        return problem
    raise AssertionError(f"{statement!r} is not refused")
