"""psoup recharge: copies of answers in a SQLite file, brought up to date within limits; add, forget."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from typer.core import TyperGroup

from psoup_cli.commands.copies.recharge_views import CommandStore, Name, existing, history, show_copy, state_of, status
from psoup_cli.common import Address, AsJson, Timeout, connect, exit_code, message
from psoup_cli.output import print_json, print_list
from psoup_client.errors import AlreadyExists, PSoupError
from psoup_client.phrases import counted
from psoup_recharge import Entry, Recharge, Recharged, Store, read_profile
from psoup_recharge.quantities import read_bytes, read_seconds

app = typer.Typer(cls=TyperGroup, invoke_without_command=True, rich_markup_mode=None, add_completion=False)

STORE = "psoup-recharge.db"
StoreFile = Annotated[
    Path,
    typer.Option(
        "--store",
        metavar="FILE",
        envvar="PSOUP_STORE",
        help="The SQLite file with the copies.",
    ),
]
Quantity = TypeVar("Quantity")
_WISHES = ("priority", "fresh", "share", "order", "window")
_SHOWN = 60
"""The greatest number of characters of a statement in a message."""


def _read(text: str | None, read: Callable[[str], Quantity], option: str) -> Quantity | None:
    """Parse the text of an option by `read`. Returns None if the option is not given."""
    try:
        return None if text is None else read(text)
    except ValueError as problem:
        raise typer.BadParameter(f"{option} is {problem}") from None


Profile = Annotated[
    Path | None, typer.Option("--profile", metavar="FILE", help="Add the queries of this TOML file first.")
]
Budget = Annotated[str | None, typer.Option("--budget", metavar="SIZE", help="Stop after this many bytes: 200kB.")]
MaxTime = Annotated[str | None, typer.Option("--max-time", metavar="TIME", help="Stop after this time: 10s.")]
Only = Annotated[
    list[str] | None, typer.Option("--only", metavar="NAME", help="Only this copy, however fresh; repeatable.")
]


@app.callback()
def recharge(
    context: typer.Context,
    store: StoreFile = Path(STORE),
    profile: Profile = None,
    budget: Budget = None,
    max_time: MaxTime = None,
    only: Only = None,
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

    Bring copies of answers up to date; only changes are transferred. Overdue copies come first, then copies of the
    greatest priority. If the bytes or the time run out, the rest comes next time. All other subcommands work without a
    network, except watch. The first `add` makes the file, or --profile.

    A profile has a table for each query: [delays], then sql = "SELECT ...", or key = "...", or id = "...". Options are
    priority = 10, fresh = "15min" (the copy is not asked for again sooner), share = 0.5 (this part of --budget is
    reserved for it), order = "newest" or "oldest" (rows that come first), and window = "BEGIN ...".
    """
    if context.invoked_subcommand is not None:
        command, flags = context.invoked_subcommand, {"--profile": profile, "--budget": budget, "--max-time": max_time}
        _refuse(flags | {"--only": only}, f"is for psoup recharge alone, not for {command}")
        _refuse(
            {"--address": address, "--timeout": timeout, "--json": as_json}, f"stands behind {command}, if it has it"
        )
        context.obj = store
        return
    size, seconds = _read(budget, read_bytes, "--budget"), _read(max_time, read_seconds, "--max-time")
    wished = None if profile is None else read_profile(profile)
    with existing(store) if wished is None else Store(store) as file:
        if wished is not None:
            file.adopt(wished)
        if not file.entries():
            _print_empty(store)
            return
        with connect(address, timeout) as client:
            report = file.recharge(client, max_bytes=size, max_seconds=seconds, only=only or ())
        _print(report, {entry.name: entry for entry in file.entries()}, as_json)
    failed = [copy.error for copy in report.copies if copy.error is not None]
    if failed:
        raise typer.Exit(exit_code(failed[0]))


def _refuse(options: Mapping[str, object], why: str) -> None:
    """Raise BadParameter for the first of some options that is given."""
    for option, value in options.items():
        if value:
            raise typer.BadParameter(f"{option} {why}")


def _print(report: Recharge, entries: dict[str, Entry], as_json: bool) -> None:
    """Print the outcome for each copy. The sum goes to standard error."""
    names = ["name", "came", "gone", "bytes", "rows", "state"]
    rows = []
    for copy in report.copies:
        state = state_of(copy.asked, copy.complete, str(copy.error or ""))
        rows.append((copy.name, copy.came, copy.gone, copy.size, entries[copy.name].rows, state))
        if as_json:
            facts = dataclasses.asdict(copy) | {"error": str(copy.error or ""), "rows": entries[copy.name].rows}
            print_json(facts)
    if not as_json:
        print_list(names, rows, [dict(zip(names, row, strict=True)) for row in rows], [False, *[True] * 4, False])
    missing = [f"{copy.name} ({counted(copy.left, 'row')})" if copy.left else copy.name for copy in report.unfinished]
    spent = {"bytes": "the bytes were", "time": "the time was"}.get(report.why, "")
    left = f"; {spent} spent, left for next time: {', '.join(missing)}" if missing else ""
    fresh = f"; fresh enough: {', '.join(report.fresh)}" if report.fresh else ""
    message(f"{counted(report.received, 'byte')} in {report.seconds:.1f} s{left}{fresh}")


Sql = Annotated[str | None, typer.Argument(metavar="[SQL]", help="The statement.", show_default=False)]
QueryId = Annotated[str | None, typer.Option("--id", metavar="ID", help="A query that stands, by its ID.")]
Key = Annotated[str | None, typer.Option("--key", metavar="TEXT", help="A query that stands, by its key.")]
Priority = Annotated[
    float,
    typer.Option("--priority", metavar="NUMBER", help="A copy with a greater number comes first; it may be negative."),
]
Fresh = Annotated[str | None, typer.Option("--fresh", metavar="TIME", help="Ask again only after this time: 15min.")]
Share = Annotated[
    float,
    typer.Option("--share", metavar="PART", help="The part of --budget that is reserved for this copy: 0.5 is half."),
]
Order = Annotated[
    str, typer.Option("--order", metavar="newest|oldest", help="The rows that come first, if not all fit.")
]
Window = Annotated[str, typer.Option("--window", metavar="BEGIN...", help="Another window than the query's own.")]
Replace = Annotated[
    bool, typer.Option("--replace", help="Replace a copy of this name that has another query; its rows go.")
]


@app.command("add", short_help="Keep a copy of a query.")
def add(
    context: typer.Context,
    name: Name,
    sql: Sql = None,
    query_id: QueryId = None,
    key: Key = None,
    priority: Priority = 0.0,
    fresh: Fresh = None,
    share: Share = 0.0,
    order: Order = "newest",
    window: Window = "",
    replace: Replace = False,
    store: CommandStore = None,
) -> None:
    """\b
    Examples:
      psoup recharge add delays "SELECT * FROM flights WHERE dep_delay > 60 BEGIN (NOW - 1 DAY)"
      psoup recharge add alerts --key alerts/u7 --priority 10
      psoup recharge --store other.db add one --id q-7f3a91c2-12

    Keep a copy of a query. A statement is registered by the next recharge; a standing query is named by its ID or key.
    NAME becomes the name of a view in the file. Adding the same query again replaces all its options.
    """
    seconds = _read(fresh, read_seconds, "--fresh") or 0.0
    entry = Entry(name, sql or "", query_id or "", key or "", priority, seconds, share, order, window)
    with Store(context.obj) as file:
        earlier = {old.name.lower(): old for old in file.entries()}.get(name.lower())
        if earlier is not None and _query_of(earlier) != _query_of(entry) and not replace:
            raise AlreadyExists(
                f"{context.obj} has a copy {earlier.name} already, of {_named(earlier)}; with --replace it becomes one"
                f" of {_named(entry)}, and its rows go; or choose another name"
            )
        file.adopt([entry])
    if earlier is None or _query_of(earlier) != _query_of(entry):
        message(f"{context.obj} keeps {name}; its rows come with: psoup recharge")
        return
    pairs = [(wish, getattr(earlier, wish), getattr(entry, wish)) for wish in _WISHES]
    changed = [f"{wish} is {new or 'none'} instead of {old or 'none'}" for wish, old, new in pairs if old != new]
    message(f"{context.obj} keeps {earlier.name} already; {', '.join(changed) or 'nothing has changed'}")


def _query_of(entry: Entry) -> tuple[str, str, str]:
    return entry.sql, entry.query_id, entry.key


def _named(entry: Entry) -> str:
    """Describe the query of a copy for a message."""
    if entry.sql:
        return f"the statement {entry.sql if len(entry.sql) <= _SHOWN else entry.sql[:_SHOWN] + '…'}"
    return f"the query with the key {entry.key}" if entry.key else f"the query {entry.query_id}"


@app.command("watch", short_help="Stay connected, and keep the copies up to date.")
def watch(
    context: typer.Context,
    every: Annotated[
        str | None,
        typer.Option(
            "--every", metavar="TIME", help="Recharge at this interval, such as 15min, instead of staying connected."
        ),
    ] = None,
    as_json: AsJson = False,
    address: Address = None,
    timeout: Timeout = None,
    store: CommandStore = None,
) -> None:
    """\b
    Examples:
      psoup recharge watch
      psoup recharge watch --every 15min

    Keep the copies up to date until Ctrl-C. Each change comes as soon as it is visible, and a line reports it. If the
    service cannot be reached, the command tries again, with pauses of up to a minute.
    """
    seconds, lines = _read(every, read_seconds, "--every"), list[str]()

    def lost(problem: PSoupError) -> None:
        if lines[-1:] != [str(problem)]:
            message(str(problem))
        lines[:] = [str(problem)]

    with existing(context.obj) as file:
        if not file.entries():
            _print_empty(context.obj)
            return
        with connect(address, timeout) as client:
            for copy in file.watch(client, every=seconds, lost=lost):
                if copy.error is None:
                    lines.clear()
                _print_change(copy, file.entry(copy.name), as_json)


def _print_empty(store: Path) -> None:
    message(f'{store} keeps no query yet. Add one: psoup recharge add NAME "SELECT ..."')


def _print_change(copy: Recharged, entry: Entry, as_json: bool) -> None:
    """Print the outcome for a copy if it has changed or failed."""
    if as_json:
        print_json(dataclasses.asdict(copy) | {"error": str(copy.error or ""), "rows": entry.rows})
    elif copy.error is not None:
        message(f"{copy.name}: {copy.error}")
    elif copy.came or copy.gone or copy.reset:
        left = "" if copy.complete else ", a part"
        print(f"{copy.name}: {copy.came:,} came, {copy.gone:,} gone, {counted(entry.rows, 'row')}{left}", flush=True)


@app.command("forget", short_help="Drop a copy, and unregister its query.")
def forget(
    context: typer.Context,
    name: Name,
    keep_query: Annotated[bool, typer.Option("--keep-query", help="Let the query stand; needs no network.")] = False,
    address: Address = None,
    timeout: Timeout = None,
    store: CommandStore = None,
) -> None:
    """\b
    Examples:
      psoup recharge forget delays
      psoup recharge forget delays --keep-query

    Drop a copy. A query that was registered from here is unregistered; one that was named by ID or key stays.
    """
    with existing(context.obj) as file:
        if keep_query or not file.entry(name).sql:
            file.forget(name)
            message(f"Dropped the copy {name}; its query stands.")
            return
        with connect(address, timeout) as client:
            file.forget(name, client)
        message(f"Dropped the copy {name}, and unregistered its query.")


app.command("show", short_help="Print a copy; no network is used.")(show_copy)
app.command("status", short_help="List the copies, and how old they are; no network is used.")(status)
app.command("history", short_help="List the recharges, or the changes of each copy; no network is used.")(history)
