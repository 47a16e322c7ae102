"""The demo with history: Spark attaches January to June, and feeds July to December.

    months before July ─> Parquet ─> backfill ─> chunks and the matches of five queries, attached in one step
                                                 three more queries, over the attached chunks
    months from July on ─> Parquet, a file a month ─> Structured Streaming, a batch a month ─> the same stream
                                                 a heartbeat ends the year; four more queries, over all of it

The questions, and the answers at the end, equal the ones of the demo that replays the year.
"""

from __future__ import annotations

import datetime as dt
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from psoup_cli.commands.spark.run import spark_module
from psoup_cli.flights.dataset import LAST_HEARTBEAT
from psoup_cli.flights.questions import AFTER, BEFORE, DURING
from psoup_cli.flights.show import say
from psoup_cli.flights.story import JULY, Story
from psoup_client import Client, PushResult
from psoup_client.phrases import counted

LIVE_FROM = "2013-07"
"""The first month, in UTC, that Spark feeds instead of attaching it."""

HALLOWEEN = dt.datetime(2013, 10, 31, 22, 0, tzinfo=dt.UTC)
BUSY = ("jfk", "late", "plane")
"""Questions about the last hours or days. They have no rows on New Year's morning, so the demo asks as of Halloween."""


class PastStory(Story):
    """A run of the demo against the service at `address`. Spark must reach its data directory."""

    def run(self) -> None:
        """Run the whole story. Raises PSoupError when the service fails, NoJava and NoSpark."""
        psoup_spark = spark_module()
        say(self._console, "Starting Spark in this process ...")
        spark = psoup_spark.session()
        with tempfile.TemporaryDirectory(prefix="psoup-demo-") as folder, Client(self._address) as client:
            write_months(self._flights, Path(folder))
            self.stream = self._create(client)
            self._register(client, BEFORE, "Five standing queries are registered before there is any flight.")
            self._ctrl_c.check()
            with psoup_spark.spark_errors():
                self._attach(psoup_spark, spark.read.parquet(f"{folder}/past"))
            for question in BEFORE:
                self._ask(client, question)
            self._register(client, DURING, "Three more queries, over what was attached before them.")
            for question in DURING:
                self._ask(client, question)
            with psoup_spark.spark_errors():
                self._feed(psoup_spark, spark, Path(folder))
            client.heartbeat(self.stream, LAST_HEARTBEAT)
            self._sequence = client.last_sequence
            self._end(client)

    def _attach(self, psoup_spark: Any, past: Any) -> None:
        say(
            self._console,
            "\nSpark makes January to June the stream's history, with what the five queries match.",
            "yellow",
        )
        start = time.monotonic()
        done = psoup_spark.backfill(past, self.stream, job="January to June", address=self._address)
        self._sequence = done.sequence
        seconds = time.monotonic() - start
        say(
            self._console,
            f"  {counted(done.rows, 'flight')} attached in {counted(done.chunks, 'chunk')}, in one step;"
            f" {seconds:.1f} s",
        )

    def _feed(self, psoup_spark: Any, spark: Any, folder: Path) -> None:
        say(self._console, "\nSpark feeds July to December, a month in each batch.", "yellow")
        live, start, total = folder / "live", time.monotonic(), 0

        def tell(number: int, result: PushResult) -> None:
            nonlocal total
            total += result.accepted
            rate = total / (time.monotonic() - start)
            say(self._console, f"  batch {number}: {result.accepted:,} flights, {rate:,.0f} flights/s so far")

        frame = spark.readStream.schema(spark.read.parquet(str(live)).schema).option("maxFilesPerTrigger", 1)
        running = psoup_spark.feed(
            frame.parquet(str(live)),
            self.stream,
            checkpoint=folder / "checkpoint",
            address=self._address,
            trigger={"availableNow": True},
            progress=tell,
        )
        try:
            running.wait()
        finally:
            running.stop()

    def _end(self, client: Client) -> None:
        say(self._console, "\nThe year is over; a heartbeat says that nothing older will come.", "yellow")
        for question in (*BEFORE, *DURING):
            self._ask(client, question, as_of=HALLOWEEN if question.name in BUSY else None)
        self._ask(client, BEFORE[0], as_of=JULY, window="BEGIN (NOW - 15 MINUTES)")
        self._register(client, AFTER, "Four new queries, over the whole year: history and what was fed.")
        for question in AFTER:
            self._ask(client, question)
        self._other_way_round(client)


def write_months(flights: pa.Table, folder: Path) -> None:
    """Write a Parquet file for each month, into the folders `past` and `live`. Spark reads the oldest file first."""
    import pyarrow.parquet as pq

    for number, (month, part) in enumerate(by_month(flights)):
        place = folder / ("past" if month < LIVE_FROM else "live")
        place.mkdir(parents=True, exist_ok=True)
        pq.write_table(part, place / f"{month}.parquet")
        os.utime(place / f"{month}.parquet", (number, number))


def by_month(flights: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yield the flights of each month, in UTC and in order."""
    import pyarrow.compute as pc  # imported here: it takes 60 ms, and most commands do not need it

    months = pc.strftime(flights["departure"], "%Y-%m")
    for month in pc.unique(months).to_pylist():
        yield month, flights.filter(pc.equal(months, month))
