"""Spark and the service against the naive model and DuckDB: history attached, batches fed, answers and frames read.

    rows ─┬─> a file, its columns in any dress ─> Spark ─> backfill, or feed ─> the service ─> answers, frames
          └─> ModelStream: what is there, and when;  Oracle: what each query answers

In which order a batch's rows of one moment come to lie is Spark's choice: the order is asked of the service, held
against the model batch by batch, and DuckDB gets the rows in it.
"""

from __future__ import annotations

import importlib
import os
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from psoup.model import TEXT, Kind
from psoup_client import Client, PSoupError
from psoup_client import Query as Handle
from psoup_testing.histories.queries import Query
from psoup_testing.histories.values import plain_values
from psoup_testing.histories.windows import Window
from psoup_testing.oracles.duckdb_answers import Oracle, difference, normal_rows
from psoup_testing.oracles.model import Declaration, ModelStream, Refusal, Row
from psoup_testing.oracles.questions import again
from psoup_testing.spark.source_columns import BAD, DRESSES, FED, dressed

_AHEAD = 1 << 60
"""Nothing here is too far ahead of the service's clock."""


@dataclass(frozen=True, slots=True)
class Place:
    """The session, a client of the service, and a folder for files."""

    spark: Any
    client: Client
    folder: Path


class SparkDuel:
    """A stream in event time that keeps everything. `compared`: answers and frames. `bad`: rows set aside."""

    def __init__(self, place: Place, declaration: Declaration, zone: str) -> None:
        self.place, self.declaration, self.zone = place, declaration, zone
        self.model = ModelStream(declaration, _AHEAD)
        self.oracle = Oracle(declaration.schema)
        self.standing: list[tuple[Handle, Query]] = []
        self.compared = self.bad = self.jobs = 0
        self.columns = ", ".join(f'"{name}"' for name in declaration.schema.names)
        place.client.create_stream(declaration.sql())
        self._everything = place.client.register(f"SELECT _id, _time, {self.columns} FROM {declaration.name}")

    def close(self) -> None:
        """The stream and its queries go."""
        self.oracle.close()
        for query in [self._everything, *(handle for handle, _ in self.standing)]:
            query.unregister()
        self.place.client.drop(self.declaration.name)

    def register(self, query: Query) -> None:
        """A new standing query; one that is refused for a constant without a value is left out."""
        try:
            handle = self.place.client.register(query.sql())
        except PSoupError as problem:
            assert query.folded() and problem.reason == "INVALID_VALUE", f"{query.sql()}\n{problem}"
            return
        self.standing.append((handle, query))

    def unregister(self, place: int) -> None:
        """Unregister a standing query, if there is one."""
        if self.standing:
            self.standing.pop(place % len(self.standing))[0].unregister()

    def backfill(self, rows: list[Row], chunk_rows: int, seed: int, meanwhile: Callable[[], None]) -> None:
        """History, bad rows among it; `meanwhile` happens once it is written, and before it is attached."""
        module = importlib.import_module("psoup_spark.backfill")
        source, job = random.Random(seed), self._next()
        table, bad = spoiled(self._table(rows, DRESSES, source), self.declaration, source)
        self._write(job, table)
        attach = module.Client.attach

        def attach_late(*args: Any) -> Any:
            meanwhile()
            return attach(*args)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module.Client, "attach", attach_late)
            done = module.backfill(
                self.place.spark.read.parquet(str(self.place.folder / job)),
                self.declaration.name,
                job=job,
                address=self.place.client.address,
                quarantine=str(self.place.folder / f"bad-{job}"),
                chunk_rows=chunk_rows,
            )
        good = [row for number, row in enumerate(rows) if number not in bad]
        assert (done.rows, done.bad) == (len(good), len(bad)), f"{done} of {len(rows)} rows, {len(bad)} bad"
        self.bad += len(bad)
        if good:
            self.model.attach(sorted(((self._time(row), row) for row in good), key=lambda entry: entry[0]))

    def feed(self, batches: Sequence[list[Row]], seed: int) -> None:
        """By Structured Streaming, a file for each batch, from a checkpoint of its own."""
        import psoup_spark

        job, done = self._next(), 0
        table = self._table([row for rows in batches for row in rows], FED, random.Random(seed))
        for number, rows in enumerate(batches):
            self._write(job, table.slice(done, len(rows)), number)
            done += len(rows)
        path = str(self.place.folder / job)
        frame = self.place.spark.readStream.schema(self.place.spark.read.parquet(path).schema)
        fed = psoup_spark.feed(
            frame.option("maxFilesPerTrigger", 1).parquet(path),
            self.declaration.name,
            checkpoint=self.place.folder / f"checkpoint-{job}",
            address=self.place.client.address,
            trigger={"availableNow": True},
        )
        assert fed.wait()
        counted = [sum(column) for column in zip(*(self.model.push(rows, 0) for rows in batches), strict=True)]
        assert [fed.result.accepted, fed.result.late, fed.result.ahead] == counted

    def check(self, ask: Callable[[Query], tuple[int | None, Window | None]], frames: int) -> None:
        """Every answer, and another as `ask` says; the first `frames` of them also as a frame; and the whole stream."""
        released = self._load()
        for number, (handle, query) in enumerate(self.standing):
            for as_of, window in ((None, None), ask(query)):
                self._answer(handle, query, as_of, window, frame=number < frames and as_of is window is None)
        names = f"_id, _time, {self.columns}".replace('"', "")
        frame = self._frame(stream=self.declaration.name, columns=names, partitions=2)
        assert Counter(normal_rows(frame)) == Counter(normal_rows(released)), "the stream as a frame"
        self.compared += 1

    def _answer(self, handle: Handle, query: Query, as_of: int | None, window: Window | None, frame: bool) -> None:
        applied = query.window if window is None else window
        options = {"as_of": as_of, "window": applied.sql() if window is not None else ""}
        try:
            wanted = self.model.range(applied, 0, as_of, False)
        except Refusal as refusal:
            with pytest.raises(PSoupError) as caught:
                handle.invoke(**options)
            assert type(caught.value).__name__ == str(refusal), query.sql()
            return
        expected = self.oracle.answer(query, wanted.first, wanted.stop)
        answers = [_plain(again(handle.invoke, **options).to_arrow())]
        if frame:
            answers.append(self._frame(query=handle.id))
        for rows in answers:
            problem = difference(expected, rows)
            assert problem is None, f"{problem}\n{query.sql()}\n{options}\n{wanted}"
            self.compared += 1

    def _load(self) -> list[Row]:
        """The tuples as the service has them, held against the model's; DuckDB has them from now on."""
        rows = _plain(again(self._everything.invoke, wait_for=self.place.client.last_sequence).to_arrow())
        released = self.model.released()
        history = sum(entry[1] < 0 for entry in self.model.accepted)
        assert [row[0] for row in rows] == [number - history for number in range(len(released))]
        assert [row[1] for row in rows] == [entry[0] for entry in released]
        place = 0
        for batch, group in groupby(released, key=lambda entry: entry[:2]):
            entries = list(group)
            loaded, place = rows[place : place + len(entries)], place + len(entries)
            wanted = Counter(normal_rows([entry[3] for entry in entries]))
            assert Counter(normal_rows([row[2:] for row in loaded])) == wanted, f"the tuples of {batch}"
        self.oracle.load([row[2:] for row in rows], [entry[0] for entry in released], -history)
        return rows

    def _frame(self, **options: Any) -> list[Row]:
        reader = self.place.spark.read.format("psoup").option("address", self.place.client.address)
        return _plain(reader.options(**options).load().toArrow())

    def _table(self, rows: list[Row], dresses: Mapping[Kind, tuple[str, ...]], source: random.Random) -> pa.Table:
        columns = {
            attribute.name: dressed(
                source.choice(dresses[attribute.type.kind]), attribute.type, [row[place] for row in rows], self.zone
            )
            for place, attribute in enumerate(self.declaration.schema.attributes)
        }
        return pa.table(columns)

    def _write(self, job: str, table: pa.Table, number: int = 0) -> None:
        """A file, a second younger than the previous one, because Spark takes files in the order of their times."""
        folder = self.place.folder / job
        folder.mkdir(exist_ok=True)
        path = folder / f"{number:03}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))

    def _next(self) -> str:
        self.jobs += 1
        return f"{self.declaration.name}-{self.jobs}"

    def _time(self, row: Row) -> int:
        assert self.declaration.time_column is not None
        time = row[self.declaration.time_column]
        assert isinstance(time, int)
        return time


def spoiled(table: pa.Table, declaration: Declaration, source: random.Random) -> tuple[pa.Table, set[int]]:
    """The table with a few invalid texts in columns of another type, and the rows with such texts."""
    bad: set[int] = set()
    for place, attribute in enumerate(declaration.schema.attributes):
        if attribute.type == TEXT or not pa.types.is_string(table.column(place).type):
            continue
        texts = table.column(place).to_pylist()
        for row in range(len(texts)):
            if source.random() < 0.04:
                texts[row] = source.choice(BAD[attribute.type.kind])
                bad.add(row)
        table = table.set_column(place, attribute.name, pa.array(texts, pa.string()))
    return table, bad


def _plain(table: pa.Table) -> list[Row]:
    return list(zip(*map(plain_values, table.columns), strict=True)) if table.num_columns else []
