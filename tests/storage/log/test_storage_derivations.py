"""Derived streams on disk: a start goes on where the last push of the pump has ended."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from psoup.admission.derivations import producer_of
from psoup.derivation import Derivation, DerivedSource, StreamOperator
from psoup.events.events import StreamCreated
from psoup.model import DAY, SECOND
from psoup.pumps import advance
from psoup.sql import create_statement, create_stream, with_derivation
from psoup.work.read_budget import ReadBudget
from psoup_storage.durable.log.definitions import created, definition_facts, definition_text
from psoup_storage.durable.tools.backup import restore
from psoup_storage.durable.tools.doctor import examine
from psoup_testing.engines.attachments import attach, write
from psoup_testing.engines.format_fixture import START, Soup
from psoup_testing.suite.sweeps import swept


def rows(first: int, count: int) -> pa.Table:
    return pa.table({"k": range(first, first + count)})


def shown(soup: Soup) -> list[dict[str, object]]:
    return soup.ask("SELECT k, _id, epoch_us(_time) AS at FROM x").to_table().to_pylist()


def filled(path: Path) -> Soup:
    """A derived stream with chunks on disk, and an open one."""
    soup = Soup(path, START)
    soup.execute("CREATE STREAM t (k BIGINT)")
    soup.execute("CREATE STREAM x AS (SELECT k FROM t WHERE k % 3 <> 1) RETENTION 3650 DAYS ARCHIVE 1 DAY")
    for step in range(12):
        soup.push("t", rows(40 * step, 40))
        soup.clock.advance(seconds=1)  # type: ignore[attr-defined]
        soup.maintain()
    return soup


def test_a_start_goes_on_after_the_log_has_forgotten_stored_rows(tmp_path: Path) -> None:
    soup = filled(tmp_path / "data")
    before = shown(soup)
    assert [row["k"] for row in before] == [k for k in range(480) if k % 3 != 1]
    soup.store.close()
    again = Soup(tmp_path / "data", soup.clock.now())
    assert shown(again) == before
    again.push("t", rows(480, 2))
    after = shown(again)
    assert after[:-1] == before
    assert (after[-1]["k"], after[-1]["_id"]) == (480, len(before))
    again.check()
    again.store.close()
    assert examine(tmp_path / "data").findings == []


@pytest.mark.parametrize("resume", swept([[], ["RESUME"], ["RESUME FROM NOW"]], fast=(1,)))
def test_a_start_reads_the_stored_chunks_of_a_stream_that_was_suspended(resume: list[str], tmp_path: Path) -> None:
    soup = filled(tmp_path / "data")
    soup.execute("CREATE STREAM y AS (SELECT k FROM x) RETENTION 3650 DAYS ARCHIVE 1 DAY")
    soup.maintain()
    for change in ("SUSPEND", *resume):
        soup.execute(f"ALTER STREAM x {change}")
    soup.maintain()
    before, specs = shown(soup), [soup.engine.snapshot().stream(name, soup.tenant).spec for name in ("x", "y")]
    soup.store.close()
    again = Soup(tmp_path / "data", soup.clock.now())
    assert shown(again) == before
    for spec in specs:
        derived = again.engine.snapshot().stream(spec.name, soup.tenant).spec.derived
        assert derived is not None and spec.derived is not None
        assert (derived.halt, derived.gaps) == (spec.derived.halt, spec.derived.gaps)
    again.store.close()


@pytest.mark.parametrize("operator", swept(["ISTREAM", "DSTREAM", "RSTREAM"], fast=1))
def test_ticks_after_starts_have_the_rows_of_a_life_without_starts(operator: str, tmp_path: Path) -> None:
    """The windows reach into chunks that are in files only. A start makes the answer before again."""

    def life(path: Path, starts: tuple[int, ...]) -> list[dict[str, object]]:
        soup = Soup(path, START)
        soup.execute("CREATE STREAM t (k BIGINT) RETENTION 4 SECONDS ARCHIVE 1 DAY")
        select = "SELECT k % 5 AS k, count(*) AS n FROM t [RANGE 7 SECONDS] WHERE k % 3 > 0 GROUP BY k % 5"
        soup.execute(f"CREATE STREAM x AS {operator} ({select}) EVERY 2 SECONDS RETENTION 3650 DAYS ARCHIVE 1 DAY")
        for step in range(12):
            soup.push("t", rows(40 * step, 40))
            soup.clock.advance(seconds=1)  # type: ignore[attr-defined]
            if step in starts:
                soup.store.close()
                soup = Soup(path, soup.clock.now())
            soup.maintain()
        last = shown(soup)
        soup.check()
        soup.store.close()
        return last

    undisturbed = life(tmp_path / "one", ())
    assert len(undisturbed) > 10
    assert life(tmp_path / "two", (1, 4, 5, 8)) == undisturbed


def test_a_pump_that_was_silent_for_long_goes_on(tmp_path: Path) -> None:
    """Its producer is forgotten by then. Its position is the watermark, which stays."""
    soup = filled(tmp_path / "data")
    before = shown(soup)
    soup.store.close()
    again = Soup(tmp_path / "data", soup.clock.now() + 400 * DAY)
    again.push("t", rows(480, 2))
    again.maintain()
    again.store.close()
    last = Soup(tmp_path / "data", again.clock.now() + SECOND)
    last.push("t", rows(482, 3))
    after = shown(last)
    assert after[: len(before)] == before
    assert [row["k"] for row in after[len(before) :]] == [480, 482, 483]
    view = last.engine.snapshot().stream("x", last.tenant)
    assert producer_of(view.stream_id) == "derived:2"
    last.check()
    last.store.close()
    assert examine(tmp_path / "data").findings == []


def test_a_backup_has_the_position_with_the_rows(tmp_path: Path) -> None:
    soup = filled(tmp_path / "data")
    before = shown(soup)
    soup.store.close()
    restore(tmp_path / "data", tmp_path / "copy")
    copy = Soup(tmp_path / "copy", soup.clock.now())
    assert shown(copy) == before
    copy.push("t", rows(480, 1))
    assert [row["_id"] for row in shown(copy)] == list(range(len(before) + 1))
    copy.store.close()


def test_the_log_keeps_the_options_of_a_derivation() -> None:
    plain = create_stream("CREATE STREAM x (k BIGINT) RETENTION 1 DAY")
    sources = (DerivedSource("t", 7, 3, DAY), DerivedSource("c", 8, 2, None))
    for operator in StreamOperator:
        for limits in ((None, None, None), (SECOND, 2 * DAY, 5_000_000)):
            derived = Derivation("SELECT k FROM t", sources, True, True, operator, *limits)
            spec = with_derivation(plain, derived)
            event = StreamCreated(1, "default", 9, spec, create_statement(spec), START)
            assert created({"sql": definition_text(event), **definition_facts(event)}) == spec


@pytest.mark.parametrize(
    "derivation",
    [
        "AS (SELECT k FROM e WHERE k > 10)",
        "AS RSTREAM (SELECT k FROM e [RANGE 5 SECONDS] WHERE k > 10) EVERY 10 SECONDS",
    ],
)
def test_attached_history_is_derived_though_the_pump_has_looked_past_it(derivation: str, tmp_path: Path) -> None:
    """No earlier tuple had a row, so the pump has looked further than its logged position."""
    soup = Soup(tmp_path / "data", START)
    soup.execute("CREATE STREAM e (k BIGINT, at TIMESTAMP) TIMESTAMP BY at RETENTION 3650 DAYS ARCHIVE 1 DAY")
    soup.execute(f"CREATE STREAM x {derivation}")

    def timed(keys: list[int], seconds: list[int]) -> tuple[pa.Table, list[int]]:
        times = [START + at * SECOND for at in seconds]
        return pa.table({"k": keys, "at": pa.array(times, pa.timestamp("us"))}), times

    soup.push("e", timed([1, 2], [-100, -99])[0])
    (pump,) = soup._pumps.by_id.values()
    assert pump.reached == START - 99 * SECOND - 1
    spec = soup.engine.snapshot().stream("e", soup.tenant).spec
    write(tmp_path / "job", spec, *timed([11, 3], [-120, -110]), [])
    attach(soup, "e", "job", tmp_path / "job")  # type: ignore[arg-type]
    soup.heartbeat("e", START - 10 * SECOND)
    assert [row["k"] for row in shown(soup)] == [11]
    soup.store.close()


def test_batches_of_a_job_leave_the_chunks_that_a_derived_stream_has_not_read(tmp_path: Path) -> None:
    """A batch makes earlier ones older than the retention. Once the stream has read them, the next batch ends them."""
    soup = Soup(tmp_path / "data", START)
    soup.execute("CREATE STREAM e (k BIGINT, at TIMESTAMP) TIMESTAMP BY at RETENTION 20 SECONDS ARCHIVE 40 SECONDS")
    soup.execute("CREATE STREAM x AS (SELECT k FROM e)")

    def feed(batch: int) -> int:
        """Attach a minute of tuples. Returns the number of chunks on disk."""
        times = [START + (60 * batch - 1_000 + second) * SECOND for second in range(60)]
        table = pa.table({"k": range(60 * batch, 60 * batch + 60), "at": pa.array(times, pa.timestamp("us"))})
        spec = soup.engine.snapshot().stream("e", soup.tenant).spec
        write(tmp_path / f"job{batch}", spec, table, times, [])
        attach(soup, "e", "job", tmp_path / f"job{batch}", batch)  # type: ignore[arg-type]
        return int(next(soup.store._database.query("SELECT count(*) FROM chunks"))[0])

    soup._pumps.run = lambda *_: 0  # type: ignore[method-assign]
    assert [feed(batch) for batch in range(4)] == [1, 2, 3, 4]
    soup.store.close()
    soup = Soup(tmp_path / "data", START)
    soup._pumps.run(soup.engine.snapshot, soup._submit, soup.clock.now, ReadBudget)
    assert [row["k"] for row in shown(soup)] == [*range(239)]
    assert feed(4) == 2
    soup.store.close()


def test_the_log_does_not_grow_with_steps_that_have_no_rows(tmp_path: Path) -> None:
    """Each second, a step may only say how far a stream with queries is derived."""
    soup = Soup(tmp_path / "data", START)
    soup.execute("CREATE STREAM t (k BIGINT)")
    soup.execute("CREATE STREAM x AS (SELECT k FROM t WHERE k > 10) FROM NOW")

    def tick() -> None:
        soup.clock.advance(seconds=1)  # type: ignore[attr-defined]
        (pump,) = soup._pumps.by_id.values()
        due = pump.due(soup.engine.snapshot(), soup.clock.now(), instant=True)
        assert due is not None
        assert advance(pump, due, soup.engine.snapshot, soup._submit, ReadBudget())

    def rows_of_log() -> int:
        return int(next(soup.store._database.query("SELECT count(*) FROM log WHERE kind = 'push'"))[0])

    for _ in range(20):
        tick()
    assert rows_of_log() == 1
    for k in (5, 11, 6, 12):
        soup.push("t", rows(k, 1))
        tick()
    before, watermark = shown(soup), soup.engine.snapshot().stream("x", soup.tenant).watermark
    assert [row["k"] for row in before] == [11, 12]
    assert rows_of_log() == 4 + 2 + 1, "four pushes into t, two steps with rows, and the last one"
    soup.store.close()
    soup = Soup(tmp_path / "data", soup.clock.now())
    assert (shown(soup), soup.engine.snapshot().stream("x", soup.tenant).watermark) == (before, watermark)
    soup.push("t", rows(13, 1))
    assert [row["k"] for row in shown(soup)] == [11, 12, 13]
    soup.check()
    soup.store.close()
    assert examine(tmp_path / "data").findings == []
