"""Commands of `psoup recharge` that read a store without a network: show, status, history."""

from __future__ import annotations

import dataclasses
import datetime as dt
import sys
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from psoup_cli.answer_flags import SHOWN_ROWS, AnswerFormat, Format, JsonRows, ShownRows, chosen_form
from psoup_cli.common import AsJson, message
from psoup_cli.output import numeric, print_batches, print_json, print_list, print_table, rows_of, show
from psoup_client.errors import NotFound
from psoup_client.phrases import counted
from psoup_proto.column_names import unique_names
from psoup_recharge import Entry, Store

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the copy, in any case.", show_default=False)]


def _use_store(context: typer.Context, store: Path | None) -> Path | None:
    """Let a command use another store than the group's option names."""
    if store is not None:
        context.obj = store
    return store


CommandStore = Annotated[
    Path | None,
    typer.Option(
        "--store",
        metavar="FILE",
        callback=_use_store,
        help="The SQLite file with the copies; before or after the command's name.",
    ),
]
"""The group's option --store behind a command, as `context.obj`."""

_UNITS = ((172_800, 86_400, "d"), (7_200, 3_600, "h"), (120, 60, "min"), (0, 1, "s"))
"""The units of an age: the least age in seconds, the seconds of the unit, and its name."""


def existing(path: Path) -> Store:
    """Open an existing store. Raises NotFound if the file is missing, because commands that read never create it."""
    if not path.exists():
        raise NotFound(f'{path} does not exist; name another with --store, or: psoup recharge add NAME "SELECT ..."')
    return Store(path)


def state_of(attempted: bool, complete: bool, error: str) -> str:
    """Return the state of a copy for the list of copies."""
    if error:
        return error.partition("\n")[0]
    return "complete" if complete else "a part" if attempted else "not asked"


def show_copy(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="The name of the copy, in any case; else --sql.", show_default=False),
    ] = None,
    sql: Annotated[
        str | None,
        typer.Option("--sql", metavar="SELECT", help="Run this SELECT on the copies, which are views by their names."),
    ] = None,
    format: AnswerFormat = None,
    as_json: JsonRows = False,
    rows: ShownRows = SHOWN_ROWS,
    store: CommandStore = None,
) -> None:
    """\b
    Examples:
      psoup recharge show delays
      psoup recharge show delays --json
      psoup recharge show --sql "SELECT carrier, count(*) FROM delays GROUP BY carrier"

    Print the rows of a copy, in the order of the answer. Rows that have left a sliding window since the last recharge,
    by the local clock, are hidden. Standard error says how exact the rows are: `exact now` (equal to the answer now, if
    no tuple came since), `as of` a time, or a part of the answer.
    """
    if (name is None) == (sql is None):
        raise typer.BadParameter("give the name of a copy, or --sql")
    with existing(context.obj) as file:
        if sql is not None:
            written, values = file.select(sql)
            names = unique_names(written)
            if as_json or format is Format.json:
                for row in values:
                    print_json(dict(zip(names, row, strict=True)))
            else:
                print_list(names, values, [dict(zip(names, row, strict=True)) for row in values])
            return
        assert name is not None
        table, entry = file.read(name), file.entry(name)
        now, _ = file.now()
    _print_rows(table, chosen_form(True, format, as_json), rows)
    message(f"{counted(table.num_rows, 'row')}, {_certainty(entry, now)}.")


def _certainty(entry: Entry, now: dt.datetime | None) -> str:
    then = f"as of {show(entry.now)}{_ago(entry.age)}"
    if entry.certainty == "exact now":
        return f"exact now, {show(now)}, of what was known {then}"
    return then if entry.complete else f"a part of the answer {then}"


def _ago(seconds: float | None) -> str:
    if seconds is None:
        return ""
    _, unit, letter = next(row for row in _UNITS if seconds >= row[0])
    return f", {seconds // unit:.0f} {letter} ago"


def _print_rows(table: pa.Table, form: Format, limit: int) -> None:
    if form is not Format.table:
        print_batches(form.value, table.schema, table.to_batches())
        return
    shown = table.slice(0, limit or table.num_rows)
    print_table(unique_names(table.schema.names), rows_of(shown), numeric(table.schema))
    if shown.num_rows < table.num_rows:
        message(f"{table.num_rows - shown.num_rows:,} more rows: --rows 0 shows all")


def status(context: typer.Context, as_json: AsJson = False, store: CommandStore = None) -> None:
    """\b
    Examples:
      psoup recharge status
      psoup recharge --store other.db status --json

    List the copies in the order in which they are recharged: as of when, and whether that is exact now. Tells if the
    clock here was set since the last recharge.
    """
    with existing(context.obj) as file:
        entries, (now, stepped) = file.entries(), file.now()
    facts: list[dict[str, Any]] = [
        dataclasses.asdict(entry)
        | {"certainty": entry.certainty, "age": entry.age, "estimated_now": now, "clock_set": stepped}
        for entry in entries
    ]
    if as_json:
        for row in facts:
            print_json(row)
    elif entries or not sys.stdout.isatty():
        names = ["name", "priority", "rows", "as of", "asked", "certainty", "state"]
        rows = [
            (
                entry.name,
                f"{entry.priority:g}",
                entry.rows,
                entry.now,
                entry.synced,
                entry.certainty,
                state_of(entry.synced is not None, entry.complete, entry.error),
            )
            for entry in entries
        ]
        print_list(names, rows, facts, [False, True, True, False, False, False, False])
    else:
        message(f'{context.obj} keeps no query yet. Add one: psoup recharge add NAME "SELECT ..."')
    if stepped:
        way = "forward" if stepped > 0 else "back"
        message(
            f"The clock here was set {way} by {abs(stepped):,.0f} s since the last recharge; NOW goes on as if not."
        )


def history(
    context: typer.Context,
    copies: Annotated[bool, typer.Option("--copies", help="Show a line for each copy.")] = False,
    lines: Annotated[int, typer.Option("--lines", metavar="N", min=1, help="List at most this many, the latest.")] = 20,
    as_json: AsJson = False,
    store: CommandStore = None,
) -> None:
    """\b
    Examples:
      psoup recharge history
      psoup recharge history --copies --json

    List the latest recharges, newest first: bytes, rows, and the copies left out with the reason (`bytes` or `time`
    were spent, or an error). A line with `watch` sums up to ten minutes of psoup recharge watch.
    """
    with existing(context.obj) as file:
        facts = file.history(lines) if copies else file.recharges(lines)
    if as_json:
        for row in facts:
            print_json(row)
        return
    names = list(facts[0]) if facts else ["at"]
    numbers = [bool(facts) and isinstance(facts[0][name], int | float) for name in names]
    print_list(names, [tuple(row.values()) for row in facts], facts, numbers)
