"""A statement that would take long to bind is refused by a count, before it is read; what a log has is not."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from psoup.errors import SqlError
from psoup.events.commands import AlterStream, CreateStream, RegisterMany
from psoup.expressions.evaluate import constant
from psoup.expressions.plainly import plain_value
from psoup.expressions.tree import Call, Literal
from psoup.model import BIGINT, DATE, DOUBLE, TEXT, TIMESTAMP
from psoup.sql.parser import guards as budget
from psoup.sql.parser.guards import MAX_BYTES, check_budget
from psoup_storage import DurableStore
from psoup_testing.engines.admission_gate import Gate


def ors(count: int) -> str:
    return "SELECT x FROM s WHERE " + " OR ".join(f"x = {number}" for number in range(count))


TOO_MUCH = {
    "or": ors(4_500),
    "sum": "SELECT x FROM s WHERE x" + "+x" * 30_000 + " > 1",
    "list of expressions": f"SELECT x FROM s WHERE x IN ({', '.join(f'x+{number}' for number in range(2_500))})",
    "columns": "SELECT " + ", ".join(f"x y{number}" for number in range(4_000)) + " FROM s",
    "conversions": "SELECT x FROM s WHERE " + " OR ".join(f"x = '{number}'::DECIMAL(9, 2)" for number in range(450)),
    "a list in a text": f"SELECT x FROM s WHERE t = '{',1' * 9_000},' OR {ors(4_000)[22:]}",
    "escaped quotes": f"SELECT x FROM s WHERE t = E'\\'' OR {ors(4_500)[22:]} OR t = ''",
    "casts": "SELECT x FROM s WHERE " + " OR ".join(["x=CaSt( '1' AS DATE)"] * 400),
    "texts in dollars that are converted": "SELECT x FROM s WHERE " + " OR ".join(["x=$$1$$::DATE"] * 400),
    "quotes": "SELECT x FROM s WHERE x IN (" + ",''" * 20_000 + ")" + "'" * 5_000,
}
ENOUGH = {
    "or": ors(1_700),
    "list": f"SELECT x FROM s WHERE x IN ({', '.join(map(str, range(9_900)))})",
    "texts": "SELECT x FROM s WHERE t IN (" + ", ".join(f"'{number}'" for number in range(6_000)) + ")",
    "a long text in dollars": f"SELECT x FROM s WHERE t = $a${'a b, ' * 12_000}$a$",
    "a long text": f"SELECT x FROM s WHERE t = '{'a b, ' * 12_000}'",
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_takes_too_long_is_refused_with_the_way_out(name: str) -> None:
    assert len(TOO_MUCH[name]) <= MAX_BYTES
    gate = Gate()
    gate.create("CREATE STREAM s (x BIGINT, t TEXT)")
    for command in ([TOO_MUCH[name]], ["SELECT x FROM s", TOO_MUCH[name]]):
        with pytest.raises(SqlError, match="words and signs, and 7,000 is the most") as refused:
            gate.send(RegisterMany(command))
        assert refused.value.reason == "STATEMENT_BUDGET"
        assert refused.value.hint.startswith("use IN or BETWEEN")
    with pytest.raises(SqlError) as refused:
        gate.send(RegisterMany([f"{TOO_MUCH[name]} /* ? */"[-MAX_BYTES:]], pa.table({"x": [1] * 300})))
    assert refused.value.reason == "STATEMENT_BUDGET"


@pytest.mark.parametrize("name", ENOUGH)
def test_what_is_long_and_quickly_read_is_taken(name: str) -> None:
    check_budget(ENOUGH[name])


def test_a_stream_may_have_all_its_columns_and_no_more_words_than_these_take() -> None:
    """65,000 signs held the sequencer, and all that comes after, for a fifth of a second before they were refused."""
    gate = Gate()
    column = "IF NOT EXISTS c_{} DECIMAL(18, 4)"
    columns = [f"c{number} DECIMAL(18, 4) NOT NULL" for number in range(500)]
    gate.send(CreateStream(f"CREATE STREAM s ({', '.join(columns)})"))
    gate.send(AlterStream("ALTER STREAM s " + ", ".join(f"ADD COLUMN {column.format(n)}" for n in range(500))))
    for sql in ("%" * 60_000, "CREATE STREAM r (" + "x " * 20_000):
        for command in (CreateStream(sql), AlterStream(sql)):
            with pytest.raises(SqlError, match=r"16,384 is the most.*\n.*\n.*\n.*1,000 columns") as refused:
                gate.send(command)
            assert (refused.value.reason, refused.value.facts["limit"]) == ("STATEMENT_BUDGET", "16384")


def test_a_long_text_without_conversions_is_not_searched_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Searched:
        def findall(self, text: str) -> list[str]:
            raise AssertionError(f"{len(text)} characters are searched, and no other thread has the interpreter")

    monkeypatch.setattr(budget, "_CONVERTED", Searched())
    check_budget(f"SELECT x FROM s WHERE t = '{'y' * 60_000}'")


def test_constants_that_are_plainly_written_are_what_casts_make_of_them() -> None:
    chance, plain = random.Random(5), 0
    for type_, texts in {
        DATE: ["2020-02-29", "2021-02-29", "0001-01-01", "9999-12-31", "1969-12-31", "0000-01-01", "2020-1-01"],
        TIMESTAMP: ["2020-02-29 23:59:59", "1969-12-31 00:00:01", "0001-01-01 00:00:00", "2020-01-01 24:00:00"],
        BIGINT: ["0", "-0", "007", "-9", "9" * 18, "9" * 19, "1.5", "+4", " 5"],
        DOUBLE: ["0", "-0", "-0.0", "1.1", "0.1", "123456789012345.123456789012345", ".5", "1e3", "5."],
    }.items():
        numbers = (
            [f"{chance.randrange(10**15)}.{chance.randrange(10**6)}" for _ in range(20)] if type_ == DOUBLE else []
        )
        for text in texts + numbers:
            value = plain_value(text, type_)
            found = constant(Call(type_, "try_cast", (Literal(TEXT, text),)))
            if value is not None:
                assert found == Literal(type_, value) and repr(found.value) == repr(value), text
                plain += 1
    assert plain >= 35


def test_a_statement_of_the_log_is_taken_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier release took it."""
    gate, store = Gate(), DurableStore(tmp_path)
    gate.create("CREATE STREAM s (x BIGINT)")
    gate.register(ors(200))
    gate.send(RegisterMany([ors(201)]))
    store.append(gate.events)
    monkeypatch.setattr(budget, "MOST_POINTS", 500)
    with pytest.raises(SqlError):
        gate.register(ors(200))
    assert len(list(store.read())) == 3
    store.close()
