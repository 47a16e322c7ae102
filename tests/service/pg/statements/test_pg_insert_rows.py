"""Rows of VALUES: the pattern for plain rows reads what the words say, and pieces add up to the statement."""

from __future__ import annotations

import asyncio
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from psoup.errors import PSoupError, ResourceExhausted, SqlError
from psoup.model import Attribute, DataType, Kind, decimal
from psoup_service.pg.contract import TEXT, Argument
from psoup_service.pg.statements.present_times import Now
from psoup_service.pg.statements.words import Words
from psoup_service.pg.statements.writing import insert_rows, inserts
from psoup_service.pg.statements.writing.insert_rows import Filling, RowReader
from psoup_service.pg.statements.writing.not_null import NotNull
from psoup_service.pg.statements.writing.targets import Target
from psoup_service.pg.values.zones import Zone
from psoup_testing.suite.sweeps import swept

NOW = 1_782_909_000_000_000
BERLIN = Zone.named("Europe/Berlin")
KINDS = (Kind.BIGINT, Kind.DOUBLE, Kind.TEXT, Kind.BOOLEAN, Kind.TIMESTAMP, Kind.DATE)
TYPES = {kind.name: DataType(kind) for kind in KINDS} | {"DECIMAL": decimal(6, 2)}
TOKENS = (
    *("1", "-1", "+7", "007", "1.5", "-.5", "2.", "1e3", "1E-400", "1e400", "9223372036854775808", "0", "-0.0", "0x1F"),
    *("''", "'it''s'", "' 12 '", "'0x1F'", "'2026-07-01 12:00'", "'x", "E'a\\'b'", "'Infinity'", "'a' 'b'", "'), (1'"),
    *(
        "NULL",
        "null",
        "DEFAULT",
        "TRUE",
        "false",
        "NULLS",
        "now()",
        "1 + 1",
        "- 1",
        "(1)",
        "-(2)",
        "--1\n2",
        "/* ) */ 3",
    ),
    *("1::int", "'5' :: double precision", "'t'::boolean", "1::nope", "DATE '2026-07-01'", "CAST('4' AS bigint)"),
    *("1.5::int", "1.0::int", "1e-3::int8", "1.5::float8", "'1.5'::int", "'5'::int", "'2026-07-01'::date"),
    *(
        "'2026-07-01 12:30'::date",
        "'2026-07-01 12:30-02'::date",
        "1::integer",
        "1.25::numeric(3,1)",
        "'abc'::varchar(2)",
    ),
    *(r"'C:\new'", r"'\xff'", r"E'C:\\new'"),
    *("$1", "$2::int", "$0", "$123456", "1_000", "\u0661", "1,", ""),
)


def outcome(text: str, *attributes: Attribute, plain: bool = True) -> Any:
    """The rows of a text after VALUES with two arguments, or its error. `plain`: whether the pattern may read rows."""
    try:
        words, named, defaults = inserts._read_head(f"INSERT INTO s VALUES {text}")
        rows = RowReader(words, named, Target("s", attributes, NotNull("s")), BERLIN, defaults=defaults)
        rows._plain = insert_rows._plain_row(len(attributes)) if plain else None
        pieces = []
        while rows.more:
            pieces.append(rows.piece())
        filling = Filling(rows, ["8", None], [25, 25], BERLIN, Now(NOW, NOW))
        batches = [filling.batch(piece) for piece in pieces]
        return rows.parameters, pa.Table.from_batches(batches).to_pylist(), len(batches)
    except SqlError as problem:
        return type(problem), problem.message, problem.line, problem.column


@pytest.mark.parametrize("kind", swept(TYPES, fast=3))
def test_a_plain_row_is_read_as_word_by_word(kind: str) -> None:
    attributes = (Attribute("a", TYPES[kind]), Attribute("b", TYPES["TEXT"]))
    for token, frame in product(TOKENS, ("({}, 'b')", "( {} ,'b' ) ,\n(NULL, ')')", "(NULL, 'x'), ({}\n,'b');")):
        text = frame.format(token)
        assert repr(outcome(text, *attributes)) == repr(outcome(text, *attributes, plain=False)), text


def test_a_backslash_is_a_character_unless_the_text_begins_with_e() -> None:
    attributes = (Attribute("a", TYPES["TEXT"]),)
    for text in (r"('C:\new'), (E'C:\\new')", r"(('C:\new')), ('C:\new'::text)"):
        assert outcome(text, *attributes)[1] == [{"a": r"C:\new"}] * 2, text
    assert outcome(r"('\xff'), (''''), (E'\x41''')", *attributes)[1] == [{"a": r"\xff"}, {"a": "'"}, {"a": "A'"}]


def test_a_cast_gives_the_value_in_it() -> None:
    attributes = (Attribute("a", TYPES["BIGINT"]),)
    text = "(CAST('4' AS bigint)), (CAST(CAST(4 AS text) AS int8)::int), ((CAST(4 AS int))), (-(CAST(4 AS int)))"
    assert outcome(text, *attributes)[1] == [{"a": value} for value in (4, 4, 4, -4)]
    for wrong in ("(CAST(4 + 1 AS int))", "(CAST(4))", "(CAST(4 AS nope))", "(4 AS int)", "(CAST(4 AS int) + 1)"):
        assert issubclass(outcome(wrong, *attributes)[0], SqlError), wrong


def test_a_cast_of_a_constant_changes_the_value_as_in_postgresql_or_is_refused() -> None:
    at = Attribute("at", TYPES["TIMESTAMP"])
    for day in ("CAST('2026-07-01 12:30' AS date)", "'2026-07-01T12:30:00Z'::date", "DATE '2026-07-01 12:30'"):
        for text in (f"({day})", f"(({day})::timestamp)"):
            assert outcome(text, at) == outcome("('2026-07-01')", at), text
    number = Attribute("a", TYPES["DOUBLE"])
    for cast in ("1.0::int", "1.5::numeric", "1.50::numeric(3,1)", "'ab'::varchar(2)", "1.5::double precision"):
        assert isinstance(outcome(f"({cast})", number if "ab" not in cast else Attribute("a", TYPES["TEXT"]))[1], list)
    for changed in (
        "1.5::int",
        "1e-3::int",
        "'1.5'::bigint",
        "1.25::numeric(3, 1)",
        "1.5::numeric(3)",
        "'abc'::varchar(2)",
    ):
        assert "a cast that changes the value in VALUES is not" in outcome(f"({changed})", number)[1], changed
    assert "a cast that changes the value" in outcome("('2026-07-01 12:30:00.25'::timestamp(0))", at)[1]
    assert isinstance(outcome("('2026-07-01 12:30:00.25'::timestamp(2))", at)[1], list)


@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 34, 100])
def test_words_know_whether_more_are_left(count: int) -> None:
    words = Words(" ".join(["x"] * count) + " ; -- end")
    for left in range(count, -1, -1):
        assert [words.has(number) for number in (left, left + 1)] == [True, False]
        if left:
            words.skip()


def test_pieces_add_up_and_errors_keep_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    attributes = (Attribute("a", TYPES["BIGINT"]), Attribute("b", TYPES["TEXT"]))
    text = ", ".join([f"({n}, 'x{n}'), ($1, $2), ({n}::int, E'y')" for n in range(30)])
    whole = outcome(text, *attributes)
    monkeypatch.setattr(insert_rows, "_PIECE", 100)
    parameters, rows, pieces = outcome(text, *attributes)
    assert (parameters, rows, 1) == whole
    assert pieces > 10
    assert rows[4] == {"a": 8, "b": None}
    assert outcome(r"(1, E'a\nb\'c')", *attributes)[1] == [{"a": 1, "b": "a\nb'c"}]
    for wrong, message, column in (
        (f"{text}, ('z', 'b')", 'invalid input syntax for type bigint: "z" (column "a")', len(text) + 25),
        (f"{text}, (1, 'b') RETURNING a", "RETURNING is not supported", len(text) + 33),
        (f"{text}, (1, 'b', 3)", "INSERT has more expressions than target columns", 13),
        (f"{text}, (1{', 1' * 100_000})", "INSERT has more expressions than target columns", 13),
        (f"{text}, (1)", "INSERT has fewer expressions than target columns", 13),
        (f"{text}, ", "the end of the statement is not expected here", len(text) + 24),
    ):
        problem = outcome(wrong, *attributes)
        assert message in problem[1]
        assert problem[2:] == (1, column)


def test_a_long_argument_in_many_rows_is_refused_before_its_rows_are_made() -> None:
    class Writes:
        zone = BERLIN

        def now(self) -> Now:
            return Now(NOW, NOW)

        async def target(self, *_: object) -> Target:
            return Target("s", (Attribute("b", TYPES["TEXT"]),), NotNull("s"))

        async def write(self, name: str, batches: Any) -> None:
            async for batch in batches:
                raise AssertionError(batch.num_rows)

    async def inserted() -> None:
        statement = await inserts.read_insert(Writes(), "INSERT INTO s VALUES " + ", ".join(["($1)"] * 50_000), ())  # type: ignore[arg-type]
        await statement.run([Argument(b"x" * 1_000_000, TEXT, 0)], None)  # type: ignore[arg-type]

    with pytest.raises(ResourceExhausted, match="use COPY"):
        asyncio.run(inserted())
    assert issubclass(ResourceExhausted, PSoupError)
