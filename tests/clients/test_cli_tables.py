"""Tables on standard output: Rich for what is short, row by row for what is long."""

import io
import time
from contextlib import redirect_stdout

from psoup_cli.output import SAMPLE, print_table


def _printed(rows: list[tuple[object, ...]]) -> list[str]:
    out = io.StringIO()
    with redirect_stdout(out):
        print_table(["n", "name", "x"], iter(rows), [True, False, True])
    return out.getvalue().splitlines()


def test_rows_after_the_sample_are_in_line() -> None:
    rows = [(number, f"row {number}" if number % 3 else "日本", None) for number in range(1, 2 * SAMPLE)]
    lines = _printed(rows)
    assert len(lines) == 2 + len(rows)
    assert lines[2 + 400] == " 401   row 401    NULL"  # of the sample, which Rich prints
    assert lines[2 + 1_401] == "1402   row 1402   NULL"
    assert lines[2 + 1_202] == "1203   日本       NULL"
    assert _printed(rows[:2]) == ["n   name       x", "────────────────", "1   row 1   NULL", "2   row 2   NULL"]


def test_a_long_value_pushes_the_rest_of_its_row() -> None:
    rows: list[tuple[object, ...]] = [(1, "a", 2)] * SAMPLE + [(1, "a long one", 2), (3, "b", 4)]
    assert _printed(rows)[-2:] == ["1   a long one   2", "3   b      4"]


def test_many_rows_take_seconds_not_minutes() -> None:
    started = time.thread_time()
    _printed([(number, "some text", 2.5) for number in range(100_000)])
    assert time.thread_time() - started < 20
