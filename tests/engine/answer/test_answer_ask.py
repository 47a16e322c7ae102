"""A SELECT that is asked once: bound to a snapshot, answered, and nothing kept. Random ones are in the duel (T10)."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from psoup.answer.ask import Questions, ask
from psoup.answer.describe import bill
from psoup.config import EngineConfig
from psoup.errors import FailedPrecondition, InvalidInput, NotFound, NotSupported, OutOfRange, PSoupError, SqlError
from psoup.local import LocalPSoup
from psoup.model import Schema
from psoup.sql.templates.ladder import ParameterValues
from psoup_testing.histories.expressions import Maker, Scope
from psoup_testing.histories.histories import BASE, draw_declaration, draw_pools
from psoup_testing.histories.queries import draw_query, with_other_constants
from psoup_testing.suite.budget import Budget, run_cases

SQL = "SELECT x, name FROM s WHERE x > 3 AND name LIKE '%a%' ORDER BY x DESC"


@pytest.fixture
def soup() -> LocalPSoup:
    made = LocalPSoup(EngineConfig(chunk_rows=64), verify="all")
    made.execute("CREATE STREAM s (x BIGINT, name TEXT) RETENTION 1 HOUR")
    made.push("s", pa.table({"x": list(range(200)), "name": ["a", "b"] * 100}))
    return made


def rows(soup: LocalPSoup, sql: str) -> list[int]:
    return soup.ask(sql).to_table().column(0).to_pylist()


def test_nothing_changes(soup: LocalPSoup) -> None:
    root, sequence, query_id = soup.engine.snapshot(), soup.admission.sequence, soup.admission.next_query
    before = (bill(root), soup.admission.used_bytes)
    for number in range(100):
        assert len(rows(soup, f"SELECT x FROM s WHERE x % 7 = {number % 7} OR x = {number}")) >= 28
    assert soup.engine.snapshot() is root
    assert (soup.admission.sequence, bill(root), soup.admission.used_bytes) == (sequence, *before)
    assert soup.register(SQL) == query_id, "no ID was taken"


def test_the_answer_is_that_of_the_query_registered(soup: LocalPSoup) -> None:
    asked = soup.ask(SQL)
    invoked = soup.invoke(soup.register(SQL))
    assert asked.to_table().equals(invoked.to_table())
    assert asked.completeness.sources == invoked.completeness.sources
    assert rows(soup, SQL)[:2] == [198, 196]


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("SELECT y FROM s", SqlError, "no column 'y'"),
        ("SELECT x FROM tt", SqlError, "there is no stream or table 'tt'"),
        ("SELECT x FROM s WHERE x = ?", NotSupported, "a parameter without a value"),
        ("SELECT x FROM s BEGIN (NOW - 2 HOURS)", OutOfRange, "keeps 1 hour"),
        ("CREATE STREAM t (x BIGINT)", SqlError, "a SELECT is needed here"),
        ("SELECT x FROM s WHERE name = '" + "a" * 100_000 + "'", SqlError, "longer than 65,536 bytes"),
        ("SELECT x FROM s WHERE " + " OR ".join(["x = 1"] * 4_000), SqlError, "words and signs"),
        ("", SqlError, "the statement is empty"),
    ],
)
def test_what_a_registration_refuses_is_refused(
    soup: LocalPSoup, sql: str, error: type[PSoupError], message: str
) -> None:
    def said(call: Callable[[str], object]) -> str:
        with pytest.raises(error, match=message) as caught:
            call(sql)
        return caught.value.message

    assert said(soup.ask) == said(soup.register)


def test_a_repeated_statement_knows_columns_that_were_added_since(soup: LocalPSoup) -> None:
    for _ in range(3):
        assert soup.ask("SELECT * FROM s WHERE x = 1").to_table().column_names == ["x", "name"]
    soup.execute("ALTER STREAM s ADD COLUMN y BIGINT")
    assert soup.ask("SELECT * FROM s WHERE x = 1").to_table().column_names == ["x", "name", "y"]


def test_a_stream_that_is_made_anew_after_the_statement_was_bound(soup: LocalPSoup) -> None:
    query = Questions().bind(soup.engine.snapshot(), SQL, tenant=soup.tenant)
    answer = ask(soup.engine.snapshot(), query, tenant=soup.tenant, now=soup.clock.now())
    soup.execute("DROP STREAM s")
    with pytest.raises(FailedPrecondition, match="was changed"):
        ask(soup.engine.snapshot(), query, tenant=soup.tenant, now=soup.clock.now())
    soup.execute("CREATE STREAM s (x BIGINT, name TEXT) RETENTION 1 HOUR")
    with pytest.raises(FailedPrecondition, match="was changed") as caught:
        ask(soup.engine.snapshot(), query, tenant=soup.tenant, now=soup.clock.now())
    assert caught.value.reason == "STREAM_CHANGED"
    assert len(answer.to_table()) == 98, "an answer holds its snapshot"


def test_what_is_remembered_changes_no_query_and_no_message() -> None:
    budget = Budget("questions", cases=40)
    known = 0

    def case(draw: Any) -> int:
        nonlocal known
        make = Maker(draw, Scope(Schema(()), ()), 2)
        declaration = draw_declaration(make)
        make = Maker(draw, Scope(declaration.schema, draw_pools(make, declaration)), 2)
        soup = LocalPSoup()
        soup.execute(declaration.sql())
        snapshot, text = soup.engine.snapshot(), draw_query(make, declaration.name, BASE, 400).sql()
        source, questions = random.Random(make.number(0, 10**6)), Questions()
        for round_ in range(6):
            sql = text if round_ < 2 else with_other_constants(source, text)
            known += (
                round_ > 2 and answered(lambda sql=sql: questions.known(snapshot, sql, tenant=soup.tenant)) is not None
            )
            alone = answered(lambda sql=sql: Questions().bind(snapshot, sql, tenant=soup.tenant))
            assert answered(lambda sql=sql: questions.bind(snapshot, sql, tenant=soup.tenant)) == alone, sql
        return 1

    run_cases(budget, case)
    assert known > budget.cases / 10, f"{known} statements were known"


def answered(bind: Callable[[], object]) -> object:
    """The query, or all that is said of the refusal."""
    try:
        return bind()
    except PSoupError as problem:
        return type(problem), str(problem), problem.reason, problem.facts


@pytest.mark.long
def test_questions_have_few_characters_together(soup: LocalPSoup) -> None:
    snapshot, questions = soup.engine.snapshot(), Questions()
    for number in range(32):
        terms = " OR ".join(f"x + {number} = 1" for _ in range(180))
        questions.bind(snapshot, f"SELECT x FROM s WHERE {terms}", tenant=soup.tenant)
    for memory in (questions._queries, questions._templates):
        assert len(memory._made) < 30
        assert memory._characters == sum(map(len, memory._made)) <= 65_536


def test_values_for_parameters(soup: LocalPSoup) -> None:
    questions, snapshot = Questions(), soup.engine.snapshot()

    def found(sql: str, values: ParameterValues) -> list[int]:
        query = questions.bind(snapshot, sql, tenant=soup.tenant, values=values)
        answer = ask(snapshot, query, tenant=soup.tenant, now=soup.clock.now())
        return answer.to_table().column(0).to_pylist()

    sql = "SELECT x FROM s WHERE x < $most AND name = $name"
    named = ParameterValues((pa.array(["b"]), pa.array([5])), names=("name", "most"))
    assert found(sql, named) == [1, 3]
    assert found("SELECT x FROM s WHERE x < ? AND name = ?", ParameterValues(rows=[(3, "a")])) == [0, 2]
    with pytest.raises(InvalidInput, match="parameter 1 is") as caught:
        found("SELECT x FROM s WHERE x < ?", ParameterValues(rows=[(datetime.date(2026, 1, 1),)]))
    assert "query" not in caught.value.facts


def test_execute_takes_any_statement() -> None:
    soup = LocalPSoup()
    for sql in (
        "-- a note\ncreate stream s (x BIGINT);",
        "/* another */ ALTER STREAM s ADD COLUMN y BIGINT",
        "DROP STREAM IF EXISTS t",
    ):
        assert soup.execute(sql) is None
    soup.push("s", pa.table({"x": [1, 2], "y": [3, 4]}))
    answer = soup.execute("SELECT y FROM s WHERE x = 2;")
    assert answer is not None
    assert answer.to_table().column(0).to_pylist() == [4]
    with pytest.raises(NotFound):
        soup.execute("DROP STREAM t")
    soup.register("SELECT y FROM s")
    with pytest.raises(
        FailedPrecondition, match=r"used by 1 query \(1\); unregister it first, or drop .* with CASCADE"
    ):
        soup.execute("DROP STREAM s")
    soup.execute('DROP STREAM "s" CASCADE')
    assert not soup.engine.snapshot().queries
    with pytest.raises(NotSupported, match="INSERT"):
        soup.execute("INSERT INTO s VALUES (1)")
