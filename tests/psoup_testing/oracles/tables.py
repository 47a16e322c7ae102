"""Engines with chunks in all states and queries of all kinds, whose answers as one table are those of invocations."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from psoup.answer.invoke import invoke
from psoup.answer.table import Table
from psoup.config import EngineConfig
from psoup.errors import PSoupError
from psoup.local import LocalPSoup
from psoup.model import DEFAULT_TENANT, SECOND
from psoup.published.snapshot import ChunkEntry, Snapshot
from psoup.results.sets import evaluated
from psoup.work.clock import VirtualClock
from psoup.work.gc_pause import without_collector
from psoup_testing.histories.histories import EAGER

SMALL = EngineConfig(chunk_rows=64, list_limit=4, columnar_queries=8, shape=EAGER, ahead=1_000 * SECOND)
Values = Callable[[np.random.Generator, int], dict[str, object]]
WINDOWS = ("", " BEGIN (NOW - 20 SECONDS)", " BEGIN (NOW - 150 SECONDS) END (NOW - 33 SECONDS)", " BEGIN (START)")
BLOCKS: tuple[tuple[str, Values], ...] = (
    ("k = ?", lambda rng, n: {"p": rng.integers(0, 40, n)}),
    ("k = ? AND v > ?", lambda rng, n: {"p": rng.integers(0, 9, n), "q": rng.random(n)}),
    ("v > ?", lambda rng, n: {"p": rng.random(n)}),
    ("CAST(t AS BIGINT) > ?", lambda rng, n: {"p": pa.array([None, *(rng.permutation(80)[1:n] - 9).tolist()])}),
)
WHERES = ("v > 0.3", "k = 3", "k < 30 OR v > 0.9", "t = 'x'", "CAST(t AS BIGINT) > 5 AND v > 0.5", "1 = 0")


def rows(rng: np.random.Generator, start: int, stop: int) -> pa.Table:
    """A tuple a second."""
    texts = rng.choice(["x", "1", "7", "a long text", ""], stop - start).tolist()
    return pa.table(
        {
            "at": pa.array(np.arange(start, stop) * SECOND, pa.timestamp("us", "UTC")),
            "k": rng.integers(0, 40, stop - start),
            "v": pa.array(rng.random(stop - start), mask=rng.random(stop - start) < 0.1),
            "t": pa.array(texts, mask=rng.random(stop - start) < 0.1),
        }
    )


@dataclass(frozen=True)
class Form:
    """The form of all queries of an engine: output, groups, and the end of the statement before its window."""

    show: str = "v, t"
    group: str = ""
    ends: Sequence[str] = ("",)
    """Of queries in blocks."""
    alone: Sequence[str] = ("", " LIMIT 3", " ORDER BY v DESC, t LIMIT 2")
    """Of queries that are registered by themselves."""
    joined: bool = False


PLAIN = Form(joined=True)


def lived(seed: int, form: Form = PLAIN) -> tuple[LocalPSoup, list[int]]:
    """An engine with chunks in all states, and queries of all kinds with the same columns; some of these are gone."""
    rng = np.random.default_rng(seed)
    soup = LocalPSoup(SMALL, VirtualClock(0))
    soup.execute("CREATE STREAM s (at TIMESTAMP NOT NULL, k BIGINT, v DOUBLE, t TEXT) TIMESTAMP BY at")
    queries: list[int] = []

    def register(where: str, values: Values) -> None:
        end = rng.choice(form.ends)
        select = f"SELECT {form.show} FROM s WHERE {where}{form.group}{end}{WINDOWS[int(rng.integers(4))]}"
        queries.extend(soup.register_many(select, pa.table(values(rng, int(rng.integers(9, 40))))))
        for where in rng.choice(WHERES, 2).tolist():
            end = rng.choice(form.alone)
            select = f"SELECT {form.show} FROM s WHERE {where}{form.group}"
            queries.append(soup.register(f"{select}{end if end else WINDOWS[int(rng.integers(4))]}"))
        apart = f"SELECT DISTINCT {form.show.removeprefix('DISTINCT ')} FROM s{form.group}"
        queries.append(soup.register(f"{apart}{WINDOWS[int(rng.integers(1, 3))]}"))
        queries.append(soup.register(f"SELECT {form.show} FROM s{form.group}{WINDOWS[int(rng.integers(4))]}"))

    for number, start in enumerate(range(0, 300, 75)):
        register(*BLOCKS[(seed + number) % len(BLOCKS)])
        soup.push("s", rows(rng, start, start + 75))
        if rng.random() < 0.5:
            soup.maintain()
    if form.joined:
        join = "SELECT a.v, b.t FROM s a, s b WHERE a.k = b.k AND a.v > 0.8 BEGIN (NOW - 9 SECONDS)"
        queries.append(soup.register(join))
    gone = rng.choice(queries, len(queries) // 5, replace=False)
    soup.unregister_many([int(query_id) for query_id in gone])
    if seed % 2:
        soup.maintain()
    return soup, queries


def given_up(snapshot: Snapshot, rng: np.random.Generator) -> Snapshot:
    """The snapshot without the results of some closed chunks; others have exceptions for some clauses."""
    (view,) = snapshot.by_id.values()
    clauses = np.array([sqc_id for sqc_id, _ in snapshot.clauses.items()])

    def changed(entry: ChunkEntry) -> ChunkEntry:
        results, chance = entry.results, rng.random()
        if not results.closed or results.open is not None or chance < 0.3:
            return entry
        if chance < 0.7:
            return replace(entry, results=results.give_up())
        out = rng.choice(clauses[evaluated(results, clauses)], 5)
        return replace(entry, results=replace(results, gaps=results.gaps.joined(out, int(rng.integers(64)))))

    left = replace(view, chunks=tuple(map(changed, view.chunks)))
    return replace(snapshot, by_id={view.stream_id: left}, streams={(DEFAULT_TENANT, "s"): left})


def check_as_single(snapshot: Snapshot, table: Table, whole: pa.Table, ids: Sequence[int], as_of: int | None) -> None:
    """Check the rows, errors and failures of a table against an invocation of each query."""
    failed = {place: part.error for part in table.failures() for place in part.places.tolist()}
    places = whole.column("_query").to_numpy()
    assert (np.diff(places) >= 0).all()
    errors = select_errors = 0
    shown, ends = whole.drop(["_query"]), np.searchsorted(places, np.arange(len(ids) + 1))
    for place, query_id in enumerate(ids):
        mine = shown.slice(ends[place], ends[place + 1] - ends[place])
        try:
            answer = invoke(snapshot, query_id, tenant=DEFAULT_TENANT, now=0, as_of=as_of)
        except PSoupError as problem:
            assert (type(failed.pop(place)), mine.num_rows) == (type(problem), 0)
            continue
        wanted = answer.to_table()
        assert place not in failed
        assert mine.combine_chunks().equals(wanted.combine_chunks()), (place, query_id, answer.record.query.text)
        errors += answer.errors
        select_errors += answer.select_errors
        (group,) = [group_ for group_ in table.groups if any(place in of for of in group_.places)]
        assert group.initial == answer.completeness._replace(errors=0)
    assert sum(group.errors for group in table.groups) == errors
    assert sum(group.select_errors for group in table.groups) == select_errors
    assert not failed


def calls(soup: LocalPSoup, ids: Sequence[int], rows_each: int) -> int:
    """The number of Python functions that a call for these queries, and as many unknown ones, executes."""
    wanted = np.concatenate([ids, np.arange(len(ids)) + 10**6])
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    with without_collector():  # it calls finalizers
        sys.setprofile(counted)
        try:
            rows = sum(batch.num_rows for batch in soup.invoke_table(wanted).batches())
        finally:
            sys.setprofile(None)
    assert rows == rows_each * len(ids)
    return count
