"""The demo with a past: half of the year attached by Spark, half fed by it; every answer against DuckDB on the year."""

from __future__ import annotations

import datetime as dt
import io
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from psoup_cli.flights.dataset import LAST_HEARTBEAT, load
from psoup_cli.flights.interrupt import CtrlC
from psoup_cli.flights.past import PastStory, by_month
from psoup_cli.flights.questions import AFTER, BEFORE, DURING
from psoup_storage import DurableStore
from psoup_testing.histories.flights import ask_duckdb
from psoup_testing.services.threaded_service import serving
from psoup_testing.spark.session import needs_java

pytestmark = needs_java


@pytest.mark.slow
def test_every_answer_over_history_and_what_was_fed_is_that_of_duckdb(spark: Any, tmp_path: Path) -> None:
    flights, told = load(), io.StringIO()
    with serving(store=DurableStore(tmp_path / "data", reserve_bytes=0)) as service:
        story = PastStory(Console(file=told, width=120), service.address, flights, 0, CtrlC())
        story.run()
    past = pa.concat_tables([part for month, part in by_month(flights) if month < "2013-07"])
    ends = [past["departure"][-1].as_py()] * 8 + [dt.datetime.fromisoformat(LAST_HEARTBEAT)] * 13
    assert len(story.shown) == len(ends)
    assert {shown.question.name for shown in story.shown} == {one.name for one in (*BEFORE, *DURING, *AFTER)}
    for shown, end in zip(story.shown, ends, strict=True):
        now = shown.as_of or end
        assert shown.answer.completeness.now == now, shown.question.name
        expected = ask_duckdb(shown, now, flights)
        assert Counter(shown.answer.rows()) == Counter(expected), (shown.question.name, shown.as_of)
        assert expected, f"{shown.question.name} has nothing to show"
    text = told.getvalue()
    attached = re.search(r"([0-9,]+) flights attached in \d+ chunks", text)
    assert attached, text
    assert int(attached[1].replace(",", "")) == past.num_rows
    assert len(re.findall(r"batch \d+: [0-9,]+ flights", text)) == 7  # six months, and the first hours of January
