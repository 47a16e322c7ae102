"""Answers, tables of answers and copies as texts and as files: the first rows, and how complete they are."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from psoup_client import Answer, Client, Completeness
from psoup_client.text_table import write_parquet

MakeStream = Callable[[str], str]

COMPLETE = Completeness(
    sequence=1, now=None, watermark=None, begin=None, end=None, final=True, late=0, ahead=0, pending=0,
    truncated=False, errors=0, window_kind="snapshot",
)  # fmt: skip
SENTENCE = COMPLETE.sentence()


def answer_of(**columns: Any) -> Answer:
    return Answer(pa.table(columns), COMPLETE)


def test_a_text_shows_values_of_every_type() -> None:
    times = pa.array([dt.datetime(2026, 7, 1, 12, tzinfo=dt.UTC), None], pa.timestamp("us", "UTC"))
    answer = answer_of(
        n=[1, 20], price=[Decimal("1.50"), None], ok=[True, None], at=times, day=[dt.date(2026, 7, 1), None]
    )
    assert repr(answer).splitlines() == [
        " n   price   ok     at                     day",
        "─" * 53,
        " 1    1.50   true   2026-07-01 12:00:00Z   2026-07-01",
        "20    NULL   NULL   NULL                   NULL",
        f"2 rows. {SENTENCE}",
    ]
    assert str(answer) == repr(answer)


def test_a_text_shows_ten_rows_and_the_columns_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")  # narrower than any that is taken into account
    lines = repr(answer_of(**{f"column_{at}": ["a" * 20] * 12 for at in range(12)})).splitlines()
    assert len(lines) == 13
    assert max(map(len, lines[:-1])) <= 80
    assert lines[-1].startswith(
        "12 rows, the first 10 shown; 9 more columns: column_3, column_4, column_5, column_6, column_7, and 4 more. "
    )
    monkeypatch.setenv("COLUMNS", "500")
    assert "more column" not in repr(answer_of(**{f"column_{at}": ["a" * 20] for at in range(12)}))


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("a\x1b[31m\nb", r"a\x1b[31m\nb"),
        ("\u202eabc", r"\u202eabc"),
        ("x" * 41, "x" * 39 + "…"),
        ("日" * 30, "日" * 19 + "…"),
        ("x" * 10_000_000, "x" * 39 + "…"),
    ],
)
def test_a_text_is_cut_and_obeyed_by_no_terminal(given: str, shown: str) -> None:
    lines = repr(answer_of(t=[given], n=[1])).splitlines()
    assert lines[2].startswith(shown)
    assert lines[2].endswith("   1")


def test_no_rows_and_no_columns() -> None:
    assert repr(answer_of(n=pa.array([], pa.int64()))).splitlines() == ["n", "─", f"0 rows. {SENTENCE}"]
    assert repr(Answer(pa.table({}), COMPLETE)) == f"0 rows. {SENTENCE}"


def test_head() -> None:
    answer = answer_of(n=[1, 2, 3])
    assert [answer.head(2).rows(), answer.head().rows(), answer.head(-1).rows()] == [
        [(1,), (2,)],
        [(1,), (2,), (3,)],
        [(1,), (2,)],
    ]
    assert answer.head(2).completeness is COMPLETE


def test_tables_copies_and_streams(client: Client, make_stream: MakeStream, tmp_path: Path) -> None:
    stream = make_stream("(n BIGINT, at TIMESTAMP NOT NULL) TIMESTAMP BY at")
    client.push(stream, [{"n": n, "at": f"2026-07-01 12:{n:02}"} for n in range(12)])
    queries = client.register_many(f"SELECT n FROM {stream} WHERE n % 2 = ?", [(0,), (1,)])
    table = client.invoke_table(queries)
    lines = repr(table).splitlines()
    assert lines[0] == "_query    n"
    assert lines[-1] == "12 rows of 2 queries, the first 10 shown. May still grow; nothing late, nothing pending."
    assert [*table.head(7).to_arrow()["n"].to_pylist()] == [0, 2, 4, 6, 8, 10, 1]
    copy = client.copy(queries[1].id)
    assert repr(copy) == f"<Copy of {queries[1].id}: nothing yet, call sync() first>"
    assert "nothing yet" in copy._repr_html_()
    copy.sync()
    assert repr(copy).splitlines()[-1] == f"6 rows. Copy of {queries[1].id}: complete, as of 2026-07-01 12:11:00Z."
    assert f"Copy of {queries[1].id}" in copy._repr_html_()
    assert copy.head(2).to_pylist() == [{"n": 1}, {"n": 3}]
    with queries[0].stream() as pieces:
        for rows, written in ((table, 12), (copy, 6), (queries[0].invoke(), 6), (pieces, 6)):
            rows.to_parquet(tmp_path / "rows.parquet")
            assert pq.read_table(tmp_path / "rows.parquet").num_rows == written


def test_a_file_is_replaced_only_by_all_rows(tmp_path: Path) -> None:
    path, schema = tmp_path / "rows.parquet", pa.schema([("n", pa.int64())])

    def broken() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [1]})
        raise ConnectionError("lost")

    answer_of(n=[7]).to_parquet(path)
    with pytest.raises(ConnectionError):
        write_parquet(broken(), schema, path)
    assert pq.read_table(path).to_pylist() == [{"n": 7}]
    assert [*tmp_path.iterdir()] == [path]
    with pytest.raises(FileNotFoundError, match="there is no directory"):
        answer_of(n=[7]).to_parquet(tmp_path / "none" / "rows.parquet")
    Answer(pa.table([[1], [2]], names=["n", "n"]), COMPLETE).to_parquet(path)
    assert pq.read_table(path).to_pylist() == [{"n": 1, "n_1": 2}]
