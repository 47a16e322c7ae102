"""Statements that are not registered: `Client.ask`, `Client.execute`, `psoup ask` and `psoup sql`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest

from psoup_client import (
    AlreadyExists,
    Answer,
    Client,
    ClientOptions,
    FailedPrecondition,
    InvalidData,
    InvalidRequest,
    InvalidStatement,
    NotFound,
    NotSupported,
    RetryOptions,
    StreamInfo,
    Unavailable,
)
from psoup_client.statements import Statement, first_word, statements_of
from psoup_testing.services.command import Psoup
from psoup_testing.services.threaded_service import Serving

MakeStream = Callable[[str], str]
FILE = """-- made for the test; nothing else
CREATE STREAM {0} (a BIGINT, t TEXT); /* ; ' */ ALTER STREAM {0} ADD COLUMN b BIGINT;;

SELECT a, ';' AS t
FROM {0} -- all of it
;
  DROP STREAM IF EXISTS {0}_gone ;
-- the end
"""


def test_a_question_is_answered_and_not_registered(client: Client, make_stream: MakeStream) -> None:
    stream = make_stream("(a BIGINT, t TEXT)")
    client.push(stream, {"a": list(range(50)), "t": ["x", "y"] * 25})
    answer = client.ask(f"SELECT a FROM {stream} WHERE t = 'y' AND a < 6")
    assert answer.rows() == [(1,), (3,), (5,)]
    assert answer.completeness.window_kind == "landmark"
    assert client.ask(f"SELECT a FROM {stream} WHERE t = ? AND a < ?", ["y", 6]).rows() == answer.rows()
    named = client.ask(f"SELECT a FROM {stream} WHERE t = $t AND a < $most", {"most": 6, "t": "y"})
    assert named.rows() == answer.rows()
    assert len(client.ask(f"SELECT a FROM {stream}", window="BEGIN (NOW - 10 ROWS)")) == 10
    assert not client.queries(stream)
    client.drop(stream)


def test_a_large_answer_comes_whole_or_in_pieces(client: Client, make_stream: MakeStream) -> None:
    stream = make_stream("(a BIGINT)")
    client.push(stream, pa.table({"a": range(200_000)}))
    sql = f"SELECT a FROM {stream}"
    assert client.ask(sql).to_arrow().column("a").to_pylist() == list(range(200_000))
    with client.ask_stream(sql) as pieces:
        sizes = [batch.num_rows for batch in pieces]
    assert len(sizes) > 2
    assert sum(sizes) == 200_000


def test_execute_returns_what_the_call_of_each_kind_does(client: Client) -> None:
    created = client.execute("CREATE STREAM kinds (a BIGINT)")
    assert isinstance(created, StreamInfo)
    with pytest.raises(AlreadyExists):
        client.execute("CREATE STREAM kinds (a BIGINT)")
    again = client.execute("CREATE STREAM kinds (a BIGINT)", if_not_exists=True)
    assert isinstance(again, StreamInfo)
    assert again.stream_id == created.stream_id
    client.push("kinds", {"a": [1]})
    altered = client.execute("ALTER STREAM kinds ADD COLUMN b TEXT")
    assert isinstance(altered, StreamInfo)
    client.push("kinds", {"a": [2], "b": ["new"]})  # the schema that is remembered is the altered one
    answer = client.execute("-- both\nSELECT * FROM kinds")
    assert isinstance(answer, Answer)
    assert answer.rows() == [(1, None), (2, "new")]
    assert client.execute("DROP STREAM Kinds") is None
    with pytest.raises(NotFound):
        client.execute("DROP STREAM kinds")
    assert client.execute("DROP STREAM IF EXISTS kinds") is None
    client.execute("CREATE STREAM kinds (c TEXT)")
    client.push("kinds", {"c": ["another"]})
    client.drop("kinds")


def test_errors_point_into_the_statement(client: Client, make_stream: MakeStream) -> None:
    stream = make_stream("(a BIGINT)")
    for call in (client.ask, client.execute):
        with pytest.raises(InvalidStatement, match="no column 'b'") as caught:
            call(f"SELECT a,\n b FROM {stream}")
        assert (caught.value.line, caught.value.column) == (2, 2)
        with pytest.raises(NotSupported, match="random"):
            call(f"SELECT random() FROM {stream}")
        with pytest.raises(InvalidRequest, match="surrogate"):
            call(f"SELECT a FROM {stream} WHERE '\ud800' = ''")
    with pytest.raises(InvalidStatement, match="a SELECT is needed here"):
        client.ask(f"DROP STREAM {stream}")
    for call in (client.ask, client.register):
        with pytest.raises(InvalidRequest, match=r"parameter 1.* is NaN, which pandas has for a missing"):
            call(f"SELECT a FROM {stream} WHERE a < ?", [float("nan")])


@pytest.mark.parametrize("wrong", [5, b"SELECT", None, ["SELECT"]])
def test_what_is_no_text_is_refused_by_name(client: Client, wrong: Any) -> None:
    for call in (client.ask, client.ask_stream, client.execute, client.register, client.create_stream):
        with pytest.raises(TypeError, match=re.escape(f"sql is {wrong!r}: give a text")):
            call(wrong)
    with pytest.raises(TypeError, match=re.escape(f"stream is {wrong!r}: give a text")):
        client.match(wrong, [{"a": 1}])
    with pytest.raises(TypeError, match=re.escape(f"query is {wrong!r}: give a query or its ID")):
        client.why(wrong, 0)


def test_what_is_no_whole_number_of_64_bits_is_refused_by_name(client: Client) -> None:
    with pytest.raises(TypeError, match="wait_for is '5': give a whole number"):
        client.ask("SELECT a FROM s", wait_for="5")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="end is 1180591620717411303424, which is out of the range"):
        client.matches_table("s", 0, 2**70)
    with pytest.raises(InvalidData, match="the key is empty"):
        client.query(key="")


def test_a_stream_with_one_query_says_unregister_it(client: Client, make_stream: MakeStream) -> None:
    stream = make_stream("(a BIGINT)")
    query = client.register(f"SELECT a FROM {stream}")
    with pytest.raises(FailedPrecondition, match=f"used by query {query.id}; unregister it first"):
        client.drop(stream)
    other = client.register(f"SELECT a FROM {stream}")
    with pytest.raises(FailedPrecondition, match=f"2 queries, for instance {query.id}, {other.id}; unregister them"):
        client.execute(f"DROP STREAM {stream}")
    for standing in (query, other):
        standing.unregister()
    client.drop(stream)


class LostReplies(grpc.UnaryUnaryClientInterceptor):
    """The first Execute is carried out, and its reply gets lost."""

    def __init__(self) -> None:
        self.sent = 0

    def intercept_unary_unary(self, continuation, details, request):  # type: ignore[no-untyped-def]
        reply = continuation(details, request)
        if details.method.endswith("/Execute"):
            self.sent += 1
            if self.sent == 1:
                reply.result()
                raise Lost
        return reply


class Lost(grpc.RpcError):
    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return "the connection broke"

    def trailing_metadata(self) -> tuple[()]:
        return ()


def test_what_may_not_be_repeated_is_sent_once(running: Serving) -> None:
    def lossy() -> tuple[Client, LostReplies]:
        lost = LostReplies()
        options = ClientOptions(interceptors=[lost], retry=RetryOptions(first_pause_seconds=0.01))
        return Client(running.address, options=options), lost

    client, lost = lossy()
    assert isinstance(client.execute("CREATE STREAM lossy (a BIGINT)"), StreamInfo)
    assert lost.sent == 2
    for sql in ("ALTER STREAM lossy ADD COLUMN b BIGINT", "DROP STREAM lossy"):
        client, lost = lossy()
        with pytest.raises(Unavailable):
            client.execute(sql)
        assert lost.sent == 1


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        (" ; ;; -- nothing\n/* ; */", []),
        ("a", [Statement(1, "a", 1, 1)]),
        ("a;b", [Statement(1, "a", 1, 1), Statement(2, "b", 1, 3)]),
        ("\n  a ';' ;\n\tb -- ; c\nd", [Statement(1, "a ';'", 2, 3), Statement(2, "b -- ; c\nd", 3, 2)]),
        ("/* x\n/* ; */ y */a;", [Statement(1, "a", 2, 13)]),
        ("a 'it''s;' - / * ;b", [Statement(1, "a 'it''s;' - / *", 1, 1), Statement(2, "b", 1, 19)]),
        ('"a;""b;";c', [Statement(1, '"a;""b;"', 1, 1), Statement(2, "c", 1, 10)]),
        ("`a;'`;b", [Statement(1, "`a;'`", 1, 1), Statement(2, "b", 1, 7)]),
        (r"a E'\';'';\\';b", [Statement(1, r"a E'\';'';\\'", 1, 1), Statement(2, "b", 1, 15)]),
        (
            "$$;'$$;$a$;$$$a$;b",
            [Statement(1, "$$;'$$", 1, 1), Statement(2, "$a$;$$$a$", 1, 8), Statement(3, "b", 1, 18)],
        ),
        (r"a E'never closed\';b", [Statement(1, r"a E'never closed\';b", 1, 1)]),
        ("a 'never closed; b", [Statement(1, "a 'never closed; b", 1, 1)]),
        ("a /* never closed; b", [Statement(1, "a /* never closed; b", 1, 1)]),
        ("-- only", []),
    ],
)
def test_where_statements_begin_and_end(text: str, found: list[Statement]) -> None:
    assert list(statements_of(text)) == found


def test_places_in_a_file() -> None:
    statement = Statement(2, "SELECT\n a", 7, 5)
    assert (statement.place(1, 3), statement.place(2, 2)) == ((7, 7), (8, 2))
    assert (statement.word, first_word("/* a */ -- b\n drop stream"), first_word("'x'")) == ("SELECT", "DROP", "")


@pytest.mark.parametrize("wrong", [5, 0, "JFK", {5}])
def test_params_that_are_not_values_are_refused_by_name(client: Client, stream: str, wrong: Any) -> None:
    sql = f"SELECT a FROM {stream} WHERE a > ?"
    for call in (client.ask, client.ask_stream, client.register):
        with pytest.raises(TypeError, match=re.escape(f"params is {wrong!r}: give a list of values for ? and $1")):
            call(sql, wrong)


def test_statements_that_are_not_texts_are_refused_by_name(client: Client) -> None:
    with pytest.raises(TypeError, match="statement 2 is 5: give texts"):
        client.register_many(["SELECT a FROM s", 5])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="sql is 5: give a statement, or a list of statements"):
        client.register_many(5)  # type: ignore[arg-type]


# The shell -----------------------------------------------------------------------------------------------


def test_psoup_ask(psoup: Psoup, filled: str) -> None:
    sql = f"SELECT id, name FROM {filled} WHERE id <> 2"
    ran = psoup("ask", sql)
    assert (ran.code, ran.out) == (0, '"id","name"\n1,"a"\n3,"c,d"\n')
    assert "2 rows." in ran.err
    assert psoup("ask", "-", "--json", stdin=sql.encode()).rows == [{"id": 1, "name": "a"}, {"id": 3, "name": "c,d"}]
    assert psoup("ask", f"SELECT id FROM {filled} WHERE id > ?", "--param", "2").out == '"id"\n3\n'
    early = psoup("ask", sql, "--as-of", "2024-05-01T12:30:00Z", "--format", "table", "--rows", "1")
    assert "1 row. Final" in early.err
    assert psoup("ask", sql, "--window", "BEGIN (NOW - 1 ROW)").out == '"id","name"\n3,"c,d"\n'
    assert filled not in psoup("queries").out
    wrong = psoup("ask", f"SELECT idd FROM {filled}")
    assert (wrong.code, wrong.out) == (1, "")
    assert "line 1, column 8" in wrong.err
    assert psoup("ask", f"DROP STREAM {filled}").code == 1


def test_psoup_sql_carries_out_a_file(psoup: Psoup, tmp_path: Path) -> None:
    path = tmp_path / "setup.sql"
    path.write_text(FILE.format("scripted"))
    ran = psoup("sql", str(path))
    assert (ran.code, ran.out) == (0, '"a","t"\n')
    said = ran.err.splitlines()
    assert said[0] == "Created stream scripted with 2 columns."
    assert said[1] == "Altered stream scripted with 3 columns."
    assert said[3] == "Done: DROP STREAM IF EXISTS scripted_gone."
    assert psoup("sql", str(path)).code == 5
    assert "give statements with -c: psoup sql -c '…'" in psoup("sql", "SELECT a FROM scripted").err
    refused = psoup("sql", "CREATE STREAM scripted_long (" + ", ".join(f"c{at} BIGINT" for at in range(99)) + ")")
    assert refused.code == 2
    assert "psoup sql reads a file, and 'CREATE STREAM scripted_long (c0 BIGINT, …' is not one; " in refused.err
    assert "File name too long" not in refused.err and "c98" not in refused.err
    two = psoup("sql", stdin=b"SELECT a FROM scripted; SELECT b FROM scripted")
    assert two.out == '"a"\n\n"b"\n'
    both = psoup("sql", "-", "--if-not-exists", stdin=b"CREATE STREAM scripted (a BIGINT, t TEXT, b BIGINT);")
    assert both.code == 0
    assert psoup("sql", stdin="\ufeffDROP STREAM scripted".encode()).code == 0


def test_psoup_sql_carries_out_statements_of_the_command_line(psoup: Psoup, filled: str, tmp_path: Path) -> None:
    created = psoup("sql", "-c", f"CREATE STREAM given (a BIGINT); SELECT id FROM {filled} WHERE id > 2")
    assert (created.code, created.out) == (0, '"id"\n3\n'), created.err
    assert psoup("sql", "--command", f"SELECT id FROM {filled} WHERE id = ?", "--param", "1").out == '"id"\n1\n'
    wrong = psoup("sql", "-c", "DROP STREAM given;\nSELECT idd FROM given")
    assert (wrong.code, "--command, line 2" in wrong.err) == (1, True), wrong.err
    (tmp_path / "both.sql").write_text("SELECT 1")
    both = psoup("sql", str(tmp_path / "both.sql"), "-c", "SELECT 1")
    assert (both.code, "not both" in both.err) == (2, True)
    assert "--command holds no statements" in psoup("sql", "-c", " ").err


def test_psoup_sql_takes_values_for_its_select(psoup: Psoup, filled: str, tmp_path: Path) -> None:
    """As do ask and register: in order, or by name; from a file an answer for each row."""
    ordered, named = (
        f"SELECT id FROM {filled} WHERE id = ?".encode(),
        f"SELECT id FROM {filled} WHERE id = $id".encode(),
    )
    assert psoup("sql", "--param", "3", stdin=ordered).out == '"id"\n3\n'
    assert psoup("sql", "--param", "id=2", stdin=named).out == psoup("ask", "-", "--param", "id=2", stdin=named).out
    assert psoup("register", "-", "--param", "id=2", stdin=named).code == 0
    (tmp_path / "ids.csv").write_text("id\n3\n1\n")
    (tmp_path / "ids.jsonl").write_text("[3]\n[1]\n")
    for file, sql in (("ids.csv", named), ("ids.csv", ordered), ("ids.jsonl", ordered)):
        assert psoup("sql", "--params", file, "--json", stdin=sql).rows == [{"id": 3}, {"id": 1}]
    for values, sql, said in (
        (("--param", "2"), named, "--param '2' is not NAME=VALUE"),
        (("--param", "id=1", "--param", "id=2"), named, "'id=2' is given twice"),
        (("--param", "1", "--params", "ids.csv"), ordered, "give --param or --params, not both"),
        (("--param", "1"), ordered + b";" + ordered, "for one SELECT, and here are 2"),
        (("--params", "ids.sql"), ordered, "--params ids.sql: name a file that ends in .csv"),
        (("--params", "gone.csv"), ordered, "gone.csv cannot be read"),
    ):
        ran = psoup("sql", *values, stdin=sql)
        assert (ran.code, said in " ".join(ran.err.split())) == (2, True), ran.err


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("SELECT 1;\n\n SELECT x\n FROM nope", 1, "line 1, column 9, statement 1 (SELECT 1): FROM is missing"),
        (
            "DROP STREAM IF EXISTS no; /* x */ SELECT x\n FROM nope",
            1,
            "line 2, column 7, statement 2 (SELECT x FROM nope): there is no stream or table 'nope'",
        ),
        ("\n DROP STREAM no", 4, "line 2, statement 1 (DROP STREAM no): there is no stream or table 'no'"),
        (
            "INSERT INTO s VALUES (1)",
            1,
            "line 1, column 1, statement 1 (INSERT INTO s VALUES (1)): the statement INSERT",
        ),
        ("SELECT 'open", 1, "line 1, column 8, statement 1 (SELECT 'open): this text is never closed"),
        (" ; -- nothing", 2, "standard input holds no statements"),
    ],
)
def test_errors_of_psoup_sql_point_into_the_file(psoup: Psoup, text: str, code: int, said: str) -> None:
    ran = psoup("sql", stdin=text.encode())
    assert ran.code == code
    assert said in " ".join(ran.err.split())
    if "statement 2" in said:
        assert "1 statement before it was carried out." in ran.err


def test_bad_files_of_psoup_sql(psoup: Psoup, tmp_path: Path) -> None:
    missing = psoup("sql", str(tmp_path / "none.sql"))
    assert (missing.code, "cannot be read" in " ".join(missing.err.split())) == (2, True)
    (tmp_path / "latin.sql").write_bytes("SELECT 'é'".encode("latin-1"))
    latin = psoup("sql", str(tmp_path / "latin.sql"))
    assert (latin.code, "latin.sql: the file is not UTF-8" in " ".join(latin.err.split())) == (2, True)
    assert psoup("sql", "--format", "arrow", stdin=b"SELECT 1; SELECT 2").code == 2
