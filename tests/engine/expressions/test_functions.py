"""Functions that the operator supplies: declared, loaded, bound, called; and those that do not do what they declare."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent, indent

import pyarrow as pa
import pytest

from psoup import functions
from psoup.errors import FailedPrecondition, InvalidInput, NotSupported, SqlError
from psoup.expressions import supplied_functions
from psoup.local import LocalPSoup
from psoup.sql.supplied_names import make_known

GOOD = """
@function(["DOUBLE", "TEXT"], "DOUBLE", cost=20)
def risk(amount, country):
    '''How risky a sale is.'''
    return pc.if_else(pc.equal(country, "XX"), 1.0, pc.divide(amount, 1000.0))

@function(["BIGINT"], "TEXT")
def stars(n):
    return pa.array(["*" * (value % 5) for value in n.to_pylist()])

@function(["BIGINT"], "BIGINT")
def even(n):
    if any(value % 2 for value in n.to_pylist()):
        raise ValueError("odd")
    return n

@function(["BIGINT"], "BOOLEAN", nulls=True)
def known(n):
    return pc.is_valid(n)

@function(["DECIMAL(6,2)", "DATE", "TIMESTAMP", "BOOLEAN"], "DECIMAL(6,2)")
def price_of(price, day, time, flag):
    return price
"""
ROWS = {"amount": [1, 900, 300, None], "country": ["XX", "DE", "DE", "FR"], "n": [1, 2, None, 4]}


def module(folder: Path, text: str, name: str = "supplied_module") -> str:
    """A module with declarations, as a file."""
    path = folder / f"{name}.py"
    head = "import pyarrow as pa, pyarrow.compute as pc, itertools\nfrom psoup.functions import function\n"
    path.write_text(head + dedent(text))
    return str(path)


def use(modules: list[str]) -> None:
    make_known(functions.load(modules))


@pytest.fixture
def loaded(tmp_path: Path) -> Iterator[None]:
    """The good functions, for one test."""
    use([module(tmp_path, GOOD)])
    yield
    supplied_functions.install(())


def sales(*statements: str) -> tuple[LocalPSoup, list[int]]:
    """Queries over sales, four tuples of which came before and four after."""
    soup = LocalPSoup(verify="all")
    soup.execute("CREATE STREAM sales (amount BIGINT, country TEXT, n BIGINT)")
    soup.push("sales", pa.table(ROWS))
    queries = [soup.register(statement) for statement in statements]
    soup.push("sales", pa.table(ROWS))
    return soup, queries


def test_where_select_order_and_distinct(loaded: None) -> None:
    statements = (
        "SELECT amount, risk(amount, country) AS r FROM sales WHERE RISK(amount, country) > 0.5",
        "SELECT stars(n) AS s, known(n) AS k FROM sales ORDER BY stars(n) DESC",
        "SELECT DISTINCT stars(n + 1) AS s FROM sales WHERE known(n) AND country <> 'FR' ORDER BY s",
    )
    soup, queries = sales(*statements)
    answers = [soup.invoke(query).to_table().to_pylist() for query in queries]
    assert answers[0] == [{"amount": 1, "r": 1.0}, {"amount": 900, "r": 0.9}] * 2
    assert [row["s"] for row in answers[1]] == ["****"] * 2 + ["**"] * 2 + ["*"] * 2 + [None] * 2
    assert [row["k"] for row in answers[1]] == [True] * 6 + [False] * 2
    assert answers[2] == [{"s": "**"}, {"s": "***"}]
    assert [soup.ask(statement).to_table().to_pylist() for statement in statements] == answers


def test_a_row_for_which_it_raises_is_an_error_of_that_row(loaded: None) -> None:
    soup, (query,) = sales("SELECT n FROM sales WHERE even(n) >= 2")
    answer = soup.invoke(query)
    assert answer.to_table().to_pylist() == [{"n": 2}, {"n": 4}] * 2
    assert answer.completeness.errors == 2


def test_a_template_and_a_form_know_it(loaded: None) -> None:
    soup, queries = sales(*(f"SELECT n FROM sales WHERE risk(amount, 'DE') > {low}" for low in (0.1, 0.5, 0.95)))
    assert [len(soup.invoke(query).to_table()) for query in queries] == [4, 2, 0]
    many = soup.register_many("SELECT n FROM sales WHERE stars(n) = ? AND n < ?", [["*", 3], ["**", 3]] * 40)
    assert [len(soup.invoke(query).to_table()) for query in many[:2]] == [2, 2]


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("SELECT risk(amount) FROM sales", "risk takes 2 arguments, not 1: risk(DOUBLE, TEXT) -> DOUBLE"),
        ("SELECT risk(country, country) FROM sales", "argument 1 of risk needs DOUBLE, not TEXT"),
        ("SELECT rist(amount, country) FROM sales", "did you mean 'risk'"),
        ("SELECT n FROM sales LIMIT stars(1)", "LIMIT"),
    ],
)
def test_what_does_not_fit_is_refused(loaded: None, statement: str, told: str) -> None:
    with pytest.raises(SqlError, match=told.replace("(", r"\(").replace(")", r"\)")):
        sales(statement)


def test_what_is_missing_refuses_the_queries_that_need_it_and_no_others(loaded: None) -> None:
    soup, queries = sales("SELECT n FROM sales WHERE risk(amount, country) > 0.5", "SELECT n FROM sales WHERE n < 3")
    supplied_functions.install(())
    for _ in range(4):  # so that what it computes leaves the index
        soup.push("sales", pa.table(ROWS))
    with pytest.raises(FailedPrecondition, match=r"needs the function risk\(DOUBLE, TEXT\) -> DOUBLE, which is not"):
        soup.invoke(queries[0])
    assert len(soup.invoke(queries[1]).to_table()) == 12
    with pytest.raises(SqlError, match="there is no function 'risk'"):
        soup.ask("SELECT risk(amount, country) FROM sales")


def test_what_is_there_again_answers_as_if_it_had_always_been(loaded: None, tmp_path: Path) -> None:
    soup, (query,) = sales("SELECT n FROM sales WHERE risk(amount, country) > 0.5")
    supplied_functions.install(())
    for _ in range(4):
        soup.push("sales", pa.table(ROWS))
    use([module(tmp_path, GOOD.replace("cost=20", "version=2"))])
    with pytest.raises(FailedPrecondition, match="is another one now"):
        soup.invoke(query)
    use([module(tmp_path, GOOD)])
    assert len(soup.invoke(query).to_table()) == 12


def test_a_join_calls_it_and_misses_it(loaded: None) -> None:
    soup, _ = sales()
    soup.execute("CREATE STREAM land (country TEXT, w BIGINT)")
    soup.push("land", pa.table({"country": ["XX", "DE"], "w": [4, 6]}))
    statement = "SELECT n, risk(amount, l.country) AS r FROM sales AS s, land AS l WHERE s.country = l.country"
    query = soup.register(statement + " AND risk(amount, l.country) > 0.5 AND even(w) > 4")
    assert soup.invoke(query).to_table().to_pylist() == [{"n": 2, "r": 0.9}] * 2
    supplied_functions.install(())
    soup.push("land", pa.table({"country": ["XX", "DE"], "w": [8, 2]}))
    with pytest.raises(FailedPrecondition, match="which is not loaded"):
        soup.invoke(query)


def test_calls_about_all_queries_are_refused_while_they_need_what_is_missing(loaded: None) -> None:
    soup, (query,) = sales("SELECT n FROM sales WHERE risk(amount, country) > 0.5")
    supplied_functions.install(())
    soup.register("SELECT n FROM sales WHERE n < 3")
    with pytest.raises(FailedPrecondition, match="which is not loaded"):
        soup.match("sales", pa.table(ROWS))
    soup.unregister(query)
    soup.maintain()
    assert len(soup.match("sales", pa.table(ROWS)).queries) == 2


@pytest.mark.parametrize(
    ("declaration", "told"),
    [
        ("1 // 0", "cannot be imported: ZeroDivisionError"),
        ("raise SystemExit(3)", "cannot be imported: SystemExit"),
        ("x = 1", "declares no function"),
        ("@function(['BIGINT'], 'BIGINT')\ndef lower(n): return n", "lower has a meaning in SQL already"),
        ("@function(['BIGINT'], 'BIGINT')\ndef count(n): return n", "count has a meaning in SQL already"),
        ("@function(['BIGINT'], 'BIGINT')\ndef random(n): return n", "random has a meaning in SQL already"),
        ("@function(['BIGINT', 'BIGINT'], 'BIGINT')\ndef trim(n, m): return n", "trim has a meaning"),
        ("@function(['BIGINT'], 'BIGINT', name='no no')\ndef f(n): return n", "cannot be the name of a function"),
        ("@function(['INT'], 'BIGINT')\ndef f(n): return n", "'INT' is not a type"),
        ("@function(['BIGINT'], 'DECIMAL(19,2)')\ndef f(n): return n", "is not a type: a DECIMAL has 1 to 18"),
        ("@function([], 'BIGINT')\ndef f(): return 1", "takes 1 to 100"),
        ("@function(['BIGINT'], 'BIGINT')\ndef f(n): return pc.cast(n, 'double')", "declares int64"),
        ("@function(['BIGINT'], 'BIGINT')\ndef f(n): return n[1:]", "15 values for 16 rows"),
        ("@function(['BIGINT'], 'BIGINT')\ndef f(n): return n.to_pylist()", "returned a list, and has to return"),
        (
            "c = itertools.count()\n@function(['BIGINT'], 'BIGINT')\ndef f(n): return pc.add(n, next(c))",
            "deterministic",
        ),
        ("@function(['BIGINT'], 'BIGINT')\ndef f(n): return pc.cumulative_sum(n)", "depends on that row alone"),
        (
            "@function(['BIGINT'], 'TEXT')\ndef f(n): return pa.array([b'\\xff'] * len(n)).view(pa.string())",
            "is damaged",
        ),
    ],
)
def test_a_module_that_is_not_right_is_refused(tmp_path: Path, declaration: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told) as refused:
        use([module(tmp_path, declaration)])
    assert refused.value.reason == "FUNCTIONS"


def test_a_name_that_is_only_refused_with_a_hint_may_be_supplied(tmp_path: Path) -> None:
    with pytest.raises(NotSupported, match=r"write stddev\(x\)"):
        sales("SELECT std(n) AS x FROM sales")
    use([module(tmp_path, "@function(['BIGINT'], 'BIGINT')\ndef std(n): return n")])
    try:
        sales("SELECT std(n) AS x FROM sales")
    finally:
        supplied_functions.install(())


def test_two_of_one_name_and_a_file_that_is_not_there_are_refused(tmp_path: Path) -> None:
    declared = "@function(['BIGINT'], 'BIGINT')\ndef twice(n): return pc.add(n, n)"
    both = [module(tmp_path, declared, "first_module"), module(tmp_path, declared, "second_module")]
    with pytest.raises(InvalidInput, match="two functions are called twice"):
        functions.load(both)
    with pytest.raises(InvalidInput, match="there is no file"):
        functions.load([str(tmp_path / "nothing.py")])
    with pytest.raises(InvalidInput, match="ModuleNotFoundError"):
        functions.load(["psoup_nothing_here"])


LATER = """
@function(["BIGINT"], "BIGINT")
def later(n):
    values = n.to_pylist()
    if 999 in values:
        {misdeed}
    return n
"""


@pytest.mark.parametrize(
    ("misdeed", "told"),
    [
        ("return pc.cast(n, 'double')", "returned values of the type double, and declares int64"),
        ("return n[1:]", r"returned \d values for \d rows"),
        ("return None", "returned a NoneType"),
    ],
)
def test_what_lies_later_is_never_wrong_data(tmp_path: Path, misdeed: str, told: str) -> None:
    use([module(tmp_path, LATER.format(misdeed=misdeed))])
    try:
        soup, queries = sales("SELECT n FROM sales WHERE later(n) > 1", "SELECT n FROM sales WHERE n > 1")
        soup.push("sales", pa.table({"n": [5, 999]}))
        with pytest.raises(FailedPrecondition, match=told):
            soup.invoke(queries[0])
        assert len(soup.invoke(queries[1]).to_table()) == 6
    finally:
        supplied_functions.install(())


def test_arguments_cannot_be_written_to(tmp_path: Path) -> None:
    misdeed = indent("import numpy as np\nview = n.to_numpy(); view.flags.writeable = True; view[:] = 7", " " * 8)
    use([module(tmp_path, LATER.format(misdeed=misdeed.strip()))])
    try:
        soup, (query,) = sales("SELECT n, later(n) AS m FROM sales WHERE n > 900")
        soup.push("sales", pa.table({"n": [5, 999, 901]}))
        assert soup.invoke(query).to_table().to_pylist() == [{"n": 999, "m": None}, {"n": 901, "m": 901}]
    finally:
        supplied_functions.install(())


def test_signatures_read_back_as_they_are_written(loaded: None) -> None:
    signatures = [each.signature for each in supplied_functions.installed()]
    assert [supplied_functions.signature_of(str(signature)) for signature in signatures] == signatures
    assert supplied_functions.used_in(["SELECT Stars (n) FROM t", "SELECT starsx(n)"]) == ["stars@1[BIGINT: TEXT]"]
