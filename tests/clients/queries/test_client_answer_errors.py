"""Values that cannot be computed are reported: in WHERE and in the SELECT list, on every way to an answer."""

import datetime as dt
from collections.abc import Callable

import pyarrow as pa
import pytest

from psoup_client import Client, InvalidData
from psoup_testing.services.command import Psoup


def test_errors_of_the_select_list_are_counted(client: Client, make_stream: Callable[[str], str], psoup: Psoup) -> None:
    name = make_stream("(n BIGINT, t TEXT)")
    query = client.register(f"SELECT n, CAST(t AS BIGINT) AS v, n // (n - 2) AS w FROM {name} WHERE n < 5")
    ordered = client.register(f"SELECT n FROM {name} ORDER BY CAST(t AS BIGINT), n")
    distinct = client.register(f"SELECT DISTINCT CAST(t AS BIGINT) AS v FROM {name}")
    client.push(name, {"n": [1, 2, 3, 9], "t": ["7", "x", None, "y"]})
    answer = query.invoke()
    assert answer.rows() == [(1, 7, -1), (2, None, None), (3, None, 3)]
    assert (answer.completeness.select_errors, answer.completeness.errors) == (2, 0)
    assert answer.completeness.sentence().endswith("2 values of the SELECT list could not be computed, NULL instead.")
    with query.stream() as pieces:
        assert pieces.completeness.select_errors == 0
        assert pieces.read_all().completeness.select_errors == 2
    assert [one.completeness.select_errors for one in client.invoke_many([query.id, ordered.id])] == [2, 2]
    assert ordered.invoke().rows() == [(1,), (2,), (3,), (9,)]
    assert distinct.invoke().completeness.select_errors == 1
    assert "2 values of the SELECT list could not be computed" in psoup("invoke", query.id).err


def test_errors_of_where_are_tuples_that_they_keep_out(
    client: Client, make_stream: Callable[[str], str], psoup: Psoup
) -> None:
    """A tuple counts once, where nothing else decides, also where the window does not reach that far."""
    name = make_stream("(n BIGINT)")
    query = client.register(f"SELECT n, 7 // n AS v FROM {name} WHERE 1 // n > 0 OR 6 % n = 0 BEGIN (NOW - 1 ROW)")
    client.push(name, {"n": [0, 0, 2]})
    answer = query.invoke()
    assert (len(answer), answer.completeness.errors, answer.completeness.select_errors) == (1, 2, 0)
    words = "2 tuples of the chunks that the window touches left out, as a value of WHERE could not be computed."
    assert answer.completeness.sentence().endswith(words)
    assert words in psoup("invoke", query.id).err
    decided = client.register(f"SELECT n FROM {name} WHERE n > 1 AND 1 // n >= 0 OR n = 0 AND 7 // n > 0 AND n > 3")
    assert (decided.invoke().rows(), decided.invoke().completeness.errors) == ([(2,)], 0)
    everything = client.register(f"SELECT 7 // n AS v FROM {name}").invoke()
    assert (everything.rows(), everything.completeness.select_errors) == ([(None,), (None,), (3,)], 2)


@pytest.mark.parametrize(
    ("kind", "arrow", "value"),
    [
        ("TIMESTAMP", pa.timestamp("us"), 2**63 - 1),
        ("TIMESTAMP", pa.timestamp("us"), 1 - 2**63),
        ("DATE", pa.date32(), 2**31 - 1),
        ("DATE", pa.date32(), 1 - 2**31),
    ],
)
def test_infinite_times_are_refused_by_name(
    client: Client, make_stream: Callable[[str], str], kind: str, arrow: pa.DataType, value: int
) -> None:
    name = make_stream(f"(at {kind})")
    whole = pa.array([0, value], pa.int64() if kind == "TIMESTAMP" else pa.int32()).cast(arrow)
    sign = "-" if value < 0 else ""
    with pytest.raises(InvalidData, match=f"row 1: the {kind} in column 'at' is {sign}infinity"):
        client.push(name, pa.table({"at": whole}))
    for text in ("infinity", "-infinity", dt.date.max.isoformat() + " 99:00"):
        with pytest.raises(Exception, match="row 0"):
            client.push(name, [{"at": text}])


def test_times_that_python_does_not_have_are_texts(
    client: Client, make_stream: Callable[[str], str], psoup: Psoup
) -> None:
    stream = make_stream("(a BIGINT, n BIGINT)")
    client.push(stream, {"a": [1_000_000, 2_013, -5], "n": [10**18, 0, -(10**17)]})
    sql = f"SELECT make_date(a, 1, 31) AS d, make_timestamp(n) AS t FROM {stream}"
    answer, near = client.ask(sql), dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    wanted = [
        ("1000000-01-31", "33658-09-27T01:46:40Z"),
        (dt.date(2013, 1, 31), near),
        ("-0005-01-31", "-1199-02-15T14:13:20Z"),
    ]
    assert answer.rows() == wanted
    assert answer[0] == {"d": wanted[0][0], "t": wanted[0][1]}
    assert "1000000-01-31" in answer._repr_html_()
    for flags in ([], ["--json"], ["--format", "csv"]):
        printed = psoup("ask", sql, *flags).out
        for date, time in (*wanted[::2], ("2013-01-31", "1970-01-01")):
            assert str(date) in printed and str(time) in printed, printed
