"""psoup stream create|alter|list|show|drop: streams."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from psoup_cli.common import Address, AsJson, Timeout, WaitFor, Yes, confirmed, connect, message
from psoup_cli.lag_words import lag_cause
from psoup_cli.output import print_json, print_list, print_pairs, print_table, show
from psoup_client import DerivationInfo, FailedPrecondition, GroupInfo, PinInfo, StreamInfo
from psoup_client.phrases import counted, verb

app = typer.Typer(cls=TyperGroup, no_args_is_help=True, rich_markup_mode=None, add_completion=False)


@app.callback()
def streams() -> None:
    """\b
    Examples:
      psoup stream create "CREATE STREAM clicks (page TEXT, ms BIGINT)"
      psoup stream list
      psoup stream show clicks
      psoup stream alter "ALTER STREAM clicks ADD COLUMN country TEXT"
      psoup stream drop clicks --cascade
      psoup stream drop-group clicks mailer

    Create, list, show, alter and drop streams.
    """


Name = Annotated[str, typer.Argument(metavar="STREAM", help="The stream's name, in any case.", show_default=False)]
IfNotExists = Annotated[bool, typer.Option("--if-not-exists", help="Accept an equal one of that name.")]
Cascade = Annotated[bool, typer.Option("--cascade", help="Unregister the queries on it, too.")]


def facts(info: StreamInfo) -> dict[str, Any]:
    """Describe a stream as a JSON object."""
    row = dataclasses.asdict(info) | {"kind": info.kind}
    row["columns"] = [{"name": c.name, "type": c.type, "nullable": c.nullable} for c in info.columns]
    return row


@app.command("create", short_help="Create a stream from a CREATE STREAM statement.")
def create(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="CREATE STREAM ...", show_default=False)],
    if_not_exists: IfNotExists = False,
    as_json: AsJson = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup stream create "CREATE STREAM clicks (page TEXT, ms BIGINT)"
      psoup stream create "CREATE STREAM trades (at TIMESTAMP NOT NULL, symbol TEXT, price DECIMAL(12,4))
        TIMESTAMP BY at LATENESS 5 SECONDS AHEAD 5 MINUTES RETENTION 7 DAYS ARCHIVE 400 DAYS"

    Create a stream. Types: BOOLEAN, BIGINT, DOUBLE, DECIMAL(p,s), TEXT, TIMESTAMP, DATE. RETENTION is the time for
    which tuples are kept in memory. ARCHIVE is the time for which they are kept on disk after that. Queries read both.
    AHEAD is how far past the service's clock the time of a tuple may lie; the default is 5 minutes. A tuple from the
    future would make all later tuples late.
    """
    with connect(address, timeout) as client:
        info = client.create_stream(sql, if_not_exists=if_not_exists)
    if as_json:
        print_json(facts(info))
    else:
        columns = counted(len(info.columns), "column")
        key = f" and the primary key {', '.join(info.primary_key)}" if info.primary_key else ""
        done = f"{info.kind.title()} {info.name} exists," if if_not_exists else f"Created {info.kind} {info.name}"
        message(f"{done} with {columns}{key}.")


@app.command("alter", short_help="Add columns to a stream, change its time, or suspend and resume a derived stream.")
def alter(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="ALTER STREAM ...", show_default=False)],
    as_json: AsJson = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup stream alter "ALTER STREAM clicks ADD COLUMN country TEXT"
      psoup stream alter "ALTER STREAM clicks ADD COLUMN IF NOT EXISTS country TEXT, ADD COLUMN bot BOOLEAN"
      psoup stream alter "ALTER STREAM clicks LATENESS 30 SECONDS"
      psoup stream alter "ALTER STREAM trades AHEAD 1 HOUR"
      psoup stream alter "ALTER STREAM clicks WATERMARK BY CLOCK"
      psoup stream alter "ALTER STREAM delayed SUSPEND"
      psoup stream alter "ALTER STREAM delayed RESUME"
      psoup stream alter "ALTER STREAM delayed RESUME FROM NOW"

    Add columns to a stream. Existing tuples have NULL in the new columns, and so has a batch without them. Standing
    queries do not see the new columns; register a query anew to select them. AHEAD is how far past the service's clock
    the time of a tuple may lie; AHEAD DEFAULT takes it back. WATERMARK BY CLOCK lets the watermark go on when no row
    comes; BY ROWS ends that. LATENESS is the time for which tuples wait for older ones.

    A derived stream gets no rows between SUSPEND and RESUME. RESUME derives the rows that it lacks, also after it was
    stopped. RESUME FROM NOW leaves them out. After LAG AT MOST its sources do not keep them: use RESUME FROM NOW.
    """
    with connect(address, timeout) as client:
        info = client.alter_stream(sql)
    if as_json:
        print_json(facts(info))
    else:
        ahead = "" if info.max_ahead is None else f", and takes times up to {_span(info.max_ahead)} ahead of the clock"
        late = f", takes tuples up to {_span(info.lateness)} late" if info.lateness else ""
        columns = counted(len(info.columns), "column")
        if info.derived is not None:
            message(f"Stream {info.name} is {info.derived.state} now.")
            return
        message(f"{info.kind.title()} {info.name} has {columns} now{late}{ahead}{_clock(info)}{_versions(info)}.")


@app.command("list", short_help="List the streams and tables.")
def list_streams(as_json: AsJson = False, address: Address = None, timeout: Timeout = None) -> None:
    """\b
    Examples:
      psoup stream list
      psoup stream list --json

    List the streams and tables in the order of their names.
    """
    list_of("", as_json, address, timeout)


def list_of(kind: str, as_json: bool, address: str | None, timeout: float | None) -> None:
    """Print the list of tables, of streams, or of both if `kind` is ""."""
    with connect(address, timeout) as client:
        streams = [info for info in client.streams() if not kind or info.kind == kind]
    if as_json:
        for info in streams:
            print_json(facts(info))
        return
    if not streams:
        noun = kind or "stream"
        message(f'There are no {noun}s yet. Create one: psoup {noun} create "CREATE {noun.upper()} ..."')
        return
    if kind == "table":
        rows = [(t.name, ", ".join(t.primary_key), *_sizes(t)) for t in streams]
        names = ["table", "primary key", "versions", "on disk only", "queries", "bytes in memory", "watermark"]
    else:
        rows = [(s.name, s.kind, *_sizes(s)) for s in streams]
        names = ["name", "kind", "tuples", "on disk only", "queries", "bytes in memory", "watermark"]
    print_list(names, rows, map(_listed, streams), [False, False, True, True, True, True, False])


def _listed(info: StreamInfo) -> dict[str, Any]:
    """Describe a stream for CSV, where a primary key is one text."""
    return facts(info) | {"primary_key": ", ".join(info.primary_key)}


def _sizes(info: StreamInfo) -> tuple[Any, ...]:
    return f"{info.tuples:,}", f"{info.archived_tuples:,}", f"{info.queries:,}", f"{info.bytes:,}", info.watermark


def _in_memory(info: StreamInfo) -> str:
    return f"{info.tuples:,} in {counted(info.chunks, 'chunk')}, {counted(info.bytes, 'byte')} in memory"


@app.command("describe", short_help="Show one stream.", hidden=True)  # the name in earlier versions
@app.command("show", short_help="Show one stream.")
def show_stream(
    name: Name,
    wait_for: WaitFor = None,
    as_json: AsJson = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup stream show flights
      psoup stream show flights --json

    Show a stream: its columns, its time, its size, the ID that the next tuple will get, and its followers.
    """
    with connect(address, timeout) as client:
        info = client.describe(name, wait_for=wait_for)
        groups, followers = client.groups(name), client.followers(name)
    if as_json:
        shown = {"groups": list(map(dataclasses.asdict, groups))}
        print_json(facts(info) | shown | {"followers": list(map(dataclasses.asdict, followers))})
        return
    print_pairs(_described(info))
    print()
    print_table(["column", "type", ""], [(c.name, c.type, "" if c.nullable else "NOT NULL") for c in info.columns])
    if followers:
        print()
        rows = [(follower.name or "(no name)", follower.next_id, f"{follower.lag:,}") for follower in followers]
        print_table(["follower", "position", "lag"], rows, [False, True, True])
    if groups:
        print()
        names = ["group", "position", "lag", "workers", "busy", "last confirmation", "queries"]
        print_table(names, map(_group, groups), [False, True, True, True, True, False, False])


def _described(info: StreamInfo) -> list[tuple[str, Any]]:
    """The lines about a stream, without its columns: names and values."""
    waits = f"{counted(info.pending, 'tuple')} {verb(info.pending, 'waits', 'wait')} for the watermark"
    return [
        (info.kind, info.name),
        *([("primary key", ", ".join(info.primary_key))] if info.primary_key else []),
        ("time", _time(info)),
        *_kept(info),
        ("created", info.created),
        ("now", info.now),
        ("watermark", info.watermark),
        ("oldest tuple", info.first_time),
        ("versions" if info.primary_key else "tuples", _in_memory(info)),
        *_archive(info),
        ("tuple IDs", f"{info.first_tuple_id} to {info.next_tuple_id - 1}" if info.tuples else "none"),
        ("next tuple ID", f"{info.next_tuple_id}"),
        ("pending", waits),
        ("refused", f"{info.late:,} too late, {info.ahead:,} too far ahead"),
        ("queries", f"{info.queries:,}"),
        *_derived(info.derived),
    ]


def _derived(derived: DerivationInfo | None) -> list[tuple[str, Any]]:
    """The lines about how a stream is derived."""
    if derived is None:
        return []
    limit = "1 day" if derived.lag_limit is None else _span(derived.lag_limit)
    late = f"; late, as that is more than LAG AT MOST {limit}" if derived.late else ""
    counts = f"{derived.rows:,} from {counted(derived.tuples, 'tuple')} since the start of the service"
    failed = [(derived.errors, "values could not be computed"), (derived.unknown, "rows have no known version")]
    faults = [f"{count:,} {words}" for count, words in failed if count]
    since = "" if derived.since is None else f" since {show(derived.since)}"
    return [
        ("derived by", f"{derived.operator} of {' '.join(derived.select.split())}"),
        *([] if derived.every is None else [("every", _span(derived.every))]),
        ("derived from", ", ".join(derived.sources)),
        ("derivation", f"{derived.state}{since}"),
        *([("failure", derived.failure)] if derived.failure else []),
        ("derived up to", derived.reached or "nothing yet"),
        ("lag", f"{_rounded(derived.lag)}{lag_cause(derived)}{late}"),
        ("rows", "; ".join([counts, *faults])),
        ("state", _state(derived)),
        *([("state bound", derived.state_bound)] if derived.state_bound else []),
        *(("lacks rows", gap.phrase()) for gap in derived.gaps),
        *(("source keeps", _pin(pin)) for pin in derived.pins),
    ]


def _state(derived: DerivationInfo) -> str:
    """Describe the state of the operators, and its bound."""
    limit = f", at most {counted(derived.state_limit, 'byte')}" if derived.state_limit else ""
    return f"{counted(derived.state_rows, 'row')}, {counted(derived.state_bytes, 'byte')}{limit}"


def _pin(pin: PinInfo) -> str:
    """Describe what a source keeps for a derived stream."""
    span = "all its tuples" if pin.time is None else f"its tuples from {show(pin.time)} on"
    return f"{pin.source}: {'nothing' if pin.released else span}; {counted(pin.unread, 'tuple')} not read"


def _group(group: GroupInfo) -> tuple[Any, ...]:
    busy = sum(worker.busy for worker in group.workers)
    selection = "all" if group.selection == "{}" else group.selection
    return group.group, group.next_id, f"{group.lag:,}", len(group.workers), busy, group.confirmed, selection


@app.command("drop-group", short_help="Forget a group of followers.")
def drop_group(
    name: Name,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.", show_default=False)],
    yes: Yes = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup stream drop-group ads mailer

    Forget a group of followers and the positions that it has confirmed. A worker that follows with this name later
    forms a new group, which begins at that moment.
    """
    with connect(address, timeout) as client:
        if not confirmed(f"Forget group {group} of stream {name} and its positions?", yes):
            raise typer.Exit(1)
        client.remove_group(name, group)
    message(f"Forgot group {group} of stream {name}.")


def _time(info: StreamInfo) -> str:
    if info.derived is not None:
        return "the instant at which each row entered the answer"
    if not info.time_column:
        return "the clock at arrival"
    order = f"up to {_span(info.lateness)} late" if info.lateness else "in order"
    ahead = "" if info.max_ahead is None else f", up to {_span(info.max_ahead)} ahead of the clock"
    return f"{info.time_column}, {order}{ahead}{_clock(info)}"


def _clock(info: StreamInfo) -> str:
    """Describe WATERMARK BY CLOCK, if the stream has it."""
    if not info.watermark_by_clock:
        return ""
    return "; its watermark follows the clock" + ("" if info.live else f" once the {info.kind} is live")


def _retention(info: StreamInfo) -> str:
    if info.retention is not None:
        on_disk = "" if info.archive is None else f"; on disk before {_span(info.retention - info.archive)}"
        return _span(info.retention) + on_disk
    if info.retention_rows is None:
        return "everything"
    hot = info.retention_rows - (info.archive_rows or 0)
    return counted(info.retention_rows, "row") + (
        "" if info.archive_rows is None else f"; on disk before the last {hot:,}"
    )


def _kept(info: StreamInfo) -> list[tuple[str, str]]:
    """The lines about the time for which tuples are kept."""
    if info.history is None or info.deleted_for is None:
        return [("retention", _retention(info))]
    times = [("history", _span(info.history)), ("deleted for", _span(info.deleted_for))]
    return [*times, ("expires by", info.expires_by)] if info.expires_by else times


def _versions(info: StreamInfo) -> str:
    """Describe the times of a table."""
    if info.history is None or info.deleted_for is None:
        return ""
    expires = f", deletes a row at the time in {info.expires_by}" if info.expires_by else ""
    return f", keeps versions for {_span(info.history)} and deletions for {_span(info.deleted_for)}{expires}"


_UNITS = {
    "week": dt.timedelta(weeks=1),
    "day": dt.timedelta(days=1),
    "hour": dt.timedelta(hours=1),
    "minute": dt.timedelta(minutes=1),
    "second": dt.timedelta(seconds=1),
    "millisecond": dt.timedelta(milliseconds=1),
}


def _span(span: dt.timedelta) -> str:
    """Write a duration in the largest unit that divides it, such as `90 seconds`."""
    for name, unit in _UNITS.items():
        count, rest = divmod(span, unit)
        if count and not rest:
            return counted(count, name)
    return counted(span // dt.timedelta(microseconds=1), "microsecond") if span else "0 seconds"


def _rounded(span: dt.timedelta) -> str:
    """Write a duration in seconds, or in days and hours from a day on: `11.0 seconds`, `4 days, 3:44:01`."""
    if span >= dt.timedelta(days=1):
        return str(dt.timedelta(seconds=round(span.total_seconds())))
    return f"{span.total_seconds():,.1f} seconds" if span else "0 seconds"


def _archive(info: StreamInfo) -> list[tuple[str, str]]:
    if info.archive is None and info.archive_rows is None:
        return []
    chunks, size = counted(info.archived_chunks, "chunk"), counted(info.archived_bytes, "byte")
    before = "" if info.first_time_in_memory is None else f", all before {show(info.first_time_in_memory)}"
    return [("archive", f"{info.archived_tuples:,} of the tuples{before}, in {chunks}: {size} on disk")]


@app.command("drop", short_help="Drop a stream and its tuples.")
def drop(
    name: Name,
    cascade: Cascade = False,
    yes: Yes = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup stream drop clicks
      psoup stream drop clicks --cascade

    Forget a stream and its tuples. Refused while queries use it: unregister them first, or say --cascade, which says
    how many they are, asks, and forgets them at the same moment.
    """
    drop_kind("stream", name, cascade, yes, address, timeout)


def drop_kind(kind: str, name: str, cascade: bool, yes: bool, address: str | None, timeout: float | None) -> None:
    """Drop a stream or a table. Raises FailedPrecondition if the name means the other kind."""
    with connect(address, timeout) as client:
        info, expected = client.describe(name), None
        if info.kind != kind:
            raise FailedPrecondition(
                f"{info.name!r} is a {info.kind}, not a {kind}: psoup {info.kind} drop {info.name}", reason="WRONG_KIND"
            )
        if cascade and not yes:
            expected = info.queries
            if expected and not confirmed(f"Drop {kind} {name} and unregister {counted(expected, 'query')}?", yes):
                raise typer.Exit(1)
        count = client.drop(name, cascade=cascade, expected=expected)
    message(f"Dropped {kind} {name}" + (f" and {counted(count, 'query')} on it." if cascade else "."))
