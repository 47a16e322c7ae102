"""psoup recharge: copies of answers in a SQLite file, brought up to date within limits; add, forget, show, status."""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer
from typer.core import TyperGroup

from psoup_cli.commands.invoke import SHOWN_ROWS, Format, JsonRows, ShownRows, chosen_form
from psoup_cli.common import Address, AsJson, Timeout, connect, exit_code, message
from psoup_cli.output import numeric, print_batches, print_json, print_list, print_table, rows_of, show
from psoup_client.wording import counted
from psoup_recharge import Entry, Recharge, Store, read_profile

app = typer.Typer(cls=TyperGroup, invoke_without_command=True, rich_markup_mode=None, add_completion=False)

STORE = "psoup-recharge.db"
_SIZES = {"": 1, "b": 1, "kb": 1_000, "mb": 1_000_000, "kib": 1_024, "mib": 1_048_576}
_SPANS = {"": 1.0, "s": 1.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}

StoreFile = Annotated[
    Path,
    typer.Option("--store", metavar="FILE", envvar="PSOUP_STORE", help="The SQLite file with the copies."),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the copy, in any case.", show_default=False)]


def _quantity(text: str, units: dict[str, float] | dict[str, int], what: str) -> float:
    """A number with a unit."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*", text)
    if match is None or match[2].lower() not in units:
        some = ", ".join(unit for unit in units if unit)
        raise typer.BadParameter(f"{text!r} is no {what}; give a number and a unit: {some}")
    return float(match[1]) * units[match[2].lower()]


def _size(text: str | None) -> int | None:
    return None if text is None else int(_quantity(text, _SIZES, "number of bytes"))


def _seconds(text: str | None) -> float | None:
    return None if text is None else _quantity(text, _SPANS, "span of time")


@app.callback()
def recharge(
    context: typer.Context,
    store: StoreFile = Path(STORE),
    profile: Annotated[
        Path | None, typer.Option("--profile", metavar="FILE", help="Add the queries of this TOML file first.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", metavar="SIZE", help="Stop when so many bytes have come: 200kB.")
    ] = None,
    max_time: Annotated[
        str | None, typer.Option("--max-time", metavar="TIME", help="Stop after this time: 10s.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="NAME", help="Only this copy, however fresh; repeatable.")
    ] = None,
    as_json: AsJson = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup recharge add delays "SELECT * FROM flights WHERE dep_delay > 60 BEGIN (NOW - 1 DAY)"
      psoup recharge add alerts --key alerts/u7 --priority 10 --fresh 15min
      psoup recharge --budget 200kB --max-time 10s
      psoup recharge show delays
      sqlite3 psoup-recharge.db "SELECT * FROM delays"

    Bring copies of answers up to date: only what has changed comes. Copies of the greatest priority come first; what
    bytes or time did not suffice for comes next time. Everything else works without a network.

    A profile has a table for each query: [delays], then sql = "SELECT ...", or key = "...", or id = "...", and
    priority = 10, fresh = 900 (seconds for which a copy need not be asked for again).
    """
    if context.invoked_subcommand is not None:
        context.obj = store
        return
    size, seconds = _size(budget), _seconds(max_time)
    with Store(store) as file:
        if profile is not None:
            file.adopt(read_profile(profile))
        if not file.entries():
            message(f'{store} keeps no query yet. Add one: psoup recharge add NAME "SELECT ..."')
            return
        with connect(address, timeout) as client:
            told = file.recharge(client, max_bytes=size, max_seconds=seconds, only=only or ())
        _print(told, {entry.name: entry for entry in file.entries()}, as_json)
    failed = [copy.error for copy in told.copies if copy.error is not None]
    if failed:
        raise typer.Exit(exit_code(failed[0]))


def _print(told: Recharge, entries: dict[str, Entry], as_json: bool) -> None:
    """Print what became of each copy; the sum goes to standard error."""
    names = ["name", "came", "gone", "bytes", "rows", "state"]
    rows = []
    for copy in told.copies:
        state = _state(copy.asked, copy.complete, str(copy.error or ""))
        rows.append((copy.name, copy.came, copy.gone, copy.size, entries[copy.name].rows, state))
        if as_json:
            facts = dataclasses.asdict(copy) | {"error": str(copy.error or ""), "rows": entries[copy.name].rows}
            print_json(facts)
    if not as_json:
        print_list(names, rows, [dict(zip(names, row, strict=True)) for row in rows], [False, *[True] * 4, False])
    left = f"; left for next time: {', '.join(told.left_out)}" if told.left_out else ""
    fresh = f"; fresh enough: {', '.join(told.fresh)}" if told.fresh else ""
    message(f"{counted(told.received, 'byte')} in {told.seconds:.1f} s{left}{fresh}")


def _state(asked: bool, complete: bool, error: str) -> str:
    if error:
        return error.partition("\n")[0]
    return "complete" if complete else "a part" if asked else "not asked"


@app.command("add", short_help="Keep a copy of a query.")
def add(
    context: typer.Context,
    name: Name,
    sql: Annotated[str | None, typer.Argument(metavar="[SQL]", help="The statement.", show_default=False)] = None,
    query_id: Annotated[str | None, typer.Option("--id", metavar="ID", help="A query that stands, by its ID.")] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="TEXT", help="A query that stands, by its key.")] = None,
    priority: Annotated[float, typer.Option("--priority", help="The greatest comes first.")] = 0.0,
    fresh: Annotated[
        str | None, typer.Option("--fresh", metavar="TIME", help="Ask again only after this time: 15min.")
    ] = None,
) -> None:
    """\b
    Examples:
      psoup recharge add delays "SELECT * FROM flights WHERE dep_delay > 60 BEGIN (NOW - 1 DAY)"
      psoup recharge add alerts --key alerts/u7 --priority 10
      psoup recharge --store other.db add one --id q-7f3a91c2-12

    Keep a copy of a query: of a statement, which the next recharge registers, or of one that stands. Its name is that
    of a view in the file. Adding it again changes priority and freshness.
    """
    with Store(context.obj) as file:
        seconds = _seconds(fresh) or 0.0
        file.add(name, sql=sql or "", query_id=query_id or "", key=key or "", priority=priority, fresh=seconds)
    message(f"{context.obj} keeps {name}; its rows come with: psoup recharge")


@app.command("forget", short_help="Drop a copy, and unregister its query.")
def forget(
    context: typer.Context,
    name: Name,
    keep_query: Annotated[bool, typer.Option("--keep-query", help="Let the query stand; needs no network.")] = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup recharge forget delays
      psoup recharge forget delays --keep-query

    Drop a copy. A query that was registered from here is unregistered; one that was named by ID or key stays.
    """
    with Store(context.obj) as file:
        if keep_query or not file.entry(name).sql:
            file.forget(name)
            message(f"Dropped the copy {name}; its query stands.")
            return
        with connect(address, timeout) as client:
            file.forget(name, client)
        message(f"Dropped the copy {name}, and unregistered its query.")


@app.command("show", short_help="Print a copy; no network is used.")
def show_copy(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", show_default=False)] = None,
    sql: Annotated[
        str | None, typer.Option("--sql", metavar="SELECT", help="What SQLite finds in the copies, by their names.")
    ] = None,
    format: Annotated[
        Format | None, typer.Option("--format", help="By default a table on a terminal, else CSV.")
    ] = None,
    as_json: JsonRows = False,
    rows: ShownRows = SHOWN_ROWS,
) -> None:
    """\b
    Examples:
      psoup recharge show delays
      psoup recharge show delays --json
      psoup recharge show --sql "SELECT carrier, count(*) FROM delays GROUP BY carrier"

    Print the rows of a copy, in the order of the answer. As of when they are goes to standard error.
    """
    if (name is None) == (sql is None):
        raise typer.BadParameter("give the name of a copy, or --sql")
    with Store(context.obj) as file:
        if sql is not None:
            names, found = file.select(sql)
            if as_json or format is Format.json:
                for row in found:
                    print_json(dict(zip(names, row, strict=True)))
            else:
                print_list(names, found, [dict(zip(names, row, strict=True)) for row in found])
            return
        assert name is not None
        table, entry = file.read(name), file.entry(name)
        _print_rows(table, chosen_form(True, format, as_json), rows)
        whole = "complete" if entry.complete else "a part of the answer"
        message(f"{counted(table.num_rows, 'row')}, {whole}, as of {show(entry.now)}.")


def _print_rows(table: pa.Table, form: Format, most: int) -> None:
    if form is not Format.table:
        print_batches(form.value, table.schema, table.to_batches())
        return
    shown = table.slice(0, most or table.num_rows)
    print_table(table.schema.names, rows_of(shown), numeric(table.schema))
    if shown.num_rows < table.num_rows:
        message(f"{table.num_rows - shown.num_rows:,} more rows: --rows 0 shows all")


@app.command("status", short_help="List the copies, and how old they are; no network is used.")
def status(context: typer.Context, as_json: AsJson = False) -> None:
    """\b
    Examples:
      psoup recharge status
      psoup recharge --store other.db status --json

    List the copies in the order in which they are recharged.
    """
    with Store(context.obj) as file:
        entries = file.entries()
    facts: list[dict[str, Any]] = [dataclasses.asdict(entry) for entry in entries]
    if as_json:
        for row in facts:
            print_json(row)
        return
    if not entries and sys.stdout.isatty():
        message(f'{context.obj} keeps no query yet. Add one: psoup recharge add NAME "SELECT ..."')
    names = ["name", "priority", "rows", "as of", "asked", "state"]
    rows = [
        (
            entry.name,
            f"{entry.priority:g}",
            entry.rows,
            entry.now,
            entry.synced,
            _state(entry.synced is not None, entry.complete, entry.error),
        )
        for entry in entries
    ]
    print_list(names, rows, facts, [False, True, True, False, False, False])
