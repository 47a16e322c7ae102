"""`python -m benchmarks`: run the benchmarks, print the table, write the JSON file.

--only arrival --only invoke.grpc   the groups or rows whose names begin so
--quick                             the headline rows alone, fewer samples
--tiny                              every row, so small that its figure means nothing: does the benchmark itself work?
--json build/bench.json             where the rows go; beside it the same as Markdown (bench.md)
--markdown                          print the table as Markdown, medians alone
--strict                            exit with 1 if a target is missed

A row that fails is a row with the reason; the others are measured, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.answers import (
    aggregates,
    archive,
    automatic,
    buckets,
    changed,
    counters,
    hop,
    invocation,
    kept_answers,
    last_rows,
    over,
    point,
    postgres_catalogue,
    postgres_port,
    tables,
)
from benchmarks.arrival import (
    activation,
    amounts,
    arrival,
    eager,
    functions,
    growth,
    one_query,
    registration,
    removal,
    scale,
    tags,
    text,
)
from benchmarks.attacks import neighbour
from benchmarks.copies import follow, page, sync, sync_joins, sync_many, watch, web, webhooks
from benchmarks.derived import crowd, delay, equal, history, lookup, pushes, state
from benchmarks.ingest import (
    async_calls,
    call_costs,
    calls,
    cdc,
    durability,
    fair,
    far,
    files,
    gate,
    http_rows,
    idle,
    kafka_topic,
    replication,
    table_start,
    tls,
    trace_cost,
    upserts,
    wire,
)
from benchmarks.joins import joins, joins_adapt, joins_as_of, joins_kept, joins_large, joins_many, joins_partners
from benchmarks.spark import spark, spark_attach, spark_backfill, spark_folds, spark_stand
from benchmarks.tool.machine import machine
from benchmarks.tool.measure import Row
from benchmarks.tool.report import head_line, json_line, markdown, number, print_table, write_json
from benchmarks.tool.run import Run, Size

GROUPS: dict[str, Callable[[Run], Iterator[Row]]] = {
    "arrival.q4096.f4": arrival.rows,
    "arrival.q4096.f4.sustained": arrival.sustained_rows,
    "arrival.q1024.mixed": arrival.mixed_rows,
    "arrival.q100k": scale.rows_of_100k,
    "arrival.q1m": lambda run: chain(scale.rows_of_1m(run), counters.arrival_rows(run)),
    "arrival.text": text.rows,
    "amount": lambda run: chain(amounts.rows(run), eager.rows(run), activation.rows(run)),
    "functions": functions.rows,
    "register": registration.rows,
    "register.one": one_query.rows,
    "tags": lambda run: chain(tags.rows(run), removal.rows(run)),
    "invoke.w": invocation.rows,
    "ask.w": invocation.ask_rows,
    "amount.complete": kept_answers.rows,
    "auto": automatic.rows,
    "table": tables.rows,
    "changed": changed.rows,
    "upsert": upserts.rows,
    "aggregate.many": lambda run: chain(tables.aggregate_rows(run), counters.rows(run)),
    "aggregate.rank": tables.rank_rows,
    "sync": sync.rows,
    "sync.join": sync_joins.rows,
    "sync.many": sync_many.rows,
    "follow": follow.rows,
    "watch": watch.rows,
    "webhook": webhooks.rows,
    "web": web.rows,
    "web.page": page.rows,
    "search": point.rows,
    "join": lambda run: chain(
        joins.rows(run),
        joins_partners.rows(run),
        joins_as_of.rows(run),
        joins_adapt.rows(run),
        joins_many.rows(run),
        joins_kept.rows(run),
        joins_large.rows(run),
        point.join_rows(run),
    ),
    "over": over.rows,
    "partition": last_rows.rows,
    "aggregate": lambda run: chain(aggregates.rows(run), buckets.rows(run)),
    "hop": hop.rows,
    "derived": lambda run: chain(
        lookup.rows(run),
        state.rows(run),
        equal.rows(run),
        crowd.rows(run),
        pushes.rows(run),
        delay.rows(run),
        history.rows(run),
    ),
    "push.grpc": wire.push_rows,
    "push.tls": tls.rows,
    "push.far": far.rows,
    "push.csv": files.rows,
    "push.http": http_rows.rows,
    "push.durable": durability.push_rows,
    "call": call_costs.rows,
    "cdc": cdc.rows,
    "kafka": kafka_topic.rows,
    "recovery": lambda run: chain(durability.recovery_rows(run), table_start.rows(run)),
    "replica": replication.rows,
    "invoke.grpc": lambda run: chain(wire.invoke_rows(run), calls.invoke_rows(run), async_calls.rows(run)),
    "pg": lambda run: chain(postgres_port.rows(run), postgres_catalogue.rows(run)),
    "archive": archive.rows,
    "growth": growth.rows,
    "idle": idle.rows,
    "fair": fair.rows,
    "gate": gate.rows,
    "traced": trace_cost.rows,
    "attacked": neighbour.rows,
    "spark.feed": spark.feed_rows,
    "spark.backfill": spark_backfill.backfill_rows,
    "spark.attach": spark_attach.attach_rows,
    "spark.folds": spark_folds.fold_rows,
    "spark.stand": spark_stand.stand_rows,
}
"""The groups in the order of the table: the beginning of their rows' names, and the function that measures them."""


NAMED_ONLY = ("spark.", "web.page")
"""Groups that are measured only if --only names them: `make bench-spark`."""


def main() -> int:
    """Measure the rows asked for; returns 1 if one failed, or missed its target with --strict, 2 without any."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure PSoup beside its peers.")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="rows whose names begin with NAME")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="the headline rows alone, with fewer samples")
    size.add_argument("--tiny", action="store_true", help="every row, too small for a figure: whether they work")
    parser.add_argument("--json", type=Path, default=Path("build/bench.json"), metavar="FILE", help="where rows go")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown, medians alone")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a target is missed")
    options = parser.parse_args()
    run = Run(Size.QUICK if options.quick else Size.TINY if options.tiny else Size.WHOLE, tuple(options.only))
    groups = [group for group in GROUPS if _wanted(group, options.only)]
    if not groups:
        parser.error(f"--only {options.only[0]}: rows begin with {', '.join(GROUPS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers are ended with it
    here = machine()
    progress = Console(stderr=True)
    progress.print(head_line(here), highlight=False)
    rows: list[Row] = []
    lines: list[str] = []
    for row in _measured(groups, run, progress):
        rows.append(row)
        lines.append(json_line(row, here))
        # Written as it goes: a run that is ended keeps what it has measured.
        write_json(options.json, lines)
        options.json.with_suffix(".md").write_text(markdown(rows, here))
    if options.only and not rows:
        progress.print(f"No row was measured whose name begins with {', '.join(options.only)}", markup=False)
        return 2
    console = Console()
    if options.markdown:
        console.print(markdown(rows, here), highlight=False, markup=False, soft_wrap=True, end="")
    else:
        print_table(rows, here, console if console.is_terminal else Console(width=200))
    missed = [row.name for row in rows if row.met is False and not run.tiny]
    failed = [row.name for row in rows if row.failure]
    if missed:
        progress.print(f"Missed: {', '.join(missed)}")
    if failed:
        progress.print(f"Failed: {', '.join(failed)}; {options.json} has the tracebacks")
    return 1 if failed or (missed and options.strict) else 0


def _measured(groups: list[str], run: Run, console: Console) -> Iterator[Row]:
    """The wanted rows, with a line for each, and a bar of the groups on a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=len(groups))
        for group in groups:
            bar.update(task, description=f"Measuring {group}")
            start = time.monotonic()
            for row in _group(group, run):
                if row.failure:
                    yield row
                    console.print(f"{row.name}: failed, {row.failure}", markup=False)
                elif run.wants(row.name):
                    yield row
                    theirs = "not here" if row.peer_sample is None else f"{row.ratio:.2f}x"
                    console.print(f"{row.name}: {number(row.sample.median)} {row.unit}, {theirs} {row.peer}")
            console.print(f"[dim]{group} took {time.monotonic() - start:.0f} s[/]")
            bar.advance(task)


def _group(group: str, run: Run) -> Iterator[Row]:
    """The rows of a group; a failure outside of its parts becomes a row that is named like the group."""
    try:
        yield from GROUPS[group](run)
    except Exception as error:
        yield Row.failed(group, error, traceback.format_exc())


def _wanted(group: str, only: list[str]) -> bool:
    """Whether rows of a group were asked for; a name belongs to the group with the longest beginning of it."""
    owners = {max((prefix for prefix in GROUPS if name.startswith(prefix)), key=len, default=None) for name in only}
    if not only:
        return not group.startswith(NAMED_ONLY)
    return group in owners or any(group.startswith(name) for name in only)


if __name__ == "__main__":
    sys.exit(main())
