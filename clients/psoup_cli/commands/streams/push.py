"""psoup push: rows of files into a stream or a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
import typer

from psoup_cli.common import REFUSED, Address, AsJson, Since, Timeout, connect, message
from psoup_cli.file_flags import (
    DateFormat,
    DecimalMark,
    Delete,
    Delimiter,
    Encoding,
    Format,
    IgnoreExtra,
    NoHeader,
    Null,
    Patch,
    Quote,
    Rename,
    ThousandsMark,
    TimeUnit,
    TimeZone,
    file_options,
    files_of,
)
from psoup_cli.output import iso, print_json
from psoup_cli.producer_push import push_files
from psoup_cli.pushed_ids import print_ids, push_pieces
from psoup_cli.row_upload import PushedFiles, Rejects
from psoup_client import (
    Client,
    FailedPrecondition,
    InvalidData,
    PushResult,
    ResourceExhausted,
    RowsRefused,
    Stage,
)
from psoup_client.ingest.refused_rows import NONE_REFUSED, instants, refused_rows
from psoup_client.ingest.row_reasons import late_name, late_rows_of
from psoup_client.phrases import counted, verb


class Refusal(StrEnum):
    """Choices of --refused."""

    COUNT = "count"
    RAISE = "raise"
    DIVERT = "divert"


StreamName = Annotated[
    str, typer.Argument(metavar="STREAM", help="The stream or table that takes the rows.", show_default=False)
]
Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...", help="Files, patterns of names in quotes, or - for standard input.", show_default=False
    ),
]
RejectsFile = Annotated[
    str | None,
    typer.Option(
        "--rejects",
        metavar="FILE",
        help="Take the rows that fit; write the rejected rows here, each with its reason.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check every row, and send none.", show_default=False)]
Whole = Annotated[bool, typer.Option("--whole", help="Take the files as a whole or not at all, visible all at once.")]
BatchName = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="NAME",
        help="With --whole: take the files of this name only once, even if they are sent again (within a week).",
    ),
]
RefusedFlag = Annotated[
    Refusal,
    typer.Option(
        "--refused",
        help="For rows that are too late or too far ahead: count them and take the rest; or raise an error; or divert"
        " them into STREAM_late.",
    ),
]
TupleIds = Annotated[
    bool,
    typer.Option(
        "--ids",
        help="Print the tuple ID of each row that was taken, or a note that the row waits.",
        show_default=False,
    ),
]


def push(
    stream: StreamName,
    files: Files,
    format: Format = None,
    delimiter: Delimiter = None,
    quote: Quote = None,
    encoding: Encoding = None,
    null: Null = None,
    decimal: DecimalMark = None,
    thousands: ThousandsMark = None,
    rename: Rename = None,
    no_header: NoHeader = False,
    ignore_extra: IgnoreExtra = False,
    date_format: DateFormat = None,
    time_unit: TimeUnit = None,
    timezone: TimeZone = None,
    rejects: RejectsFile = None,
    refused: RefusedFlag = Refusal.COUNT,
    delete: Delete = False,
    patch: Patch = False,
    dry_run: DryRun = False,
    whole: Whole = False,
    batch_id: BatchName = None,
    since: Since = None,
    ids: TupleIds = False,
    as_json: AsJson = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup push flights flights.parquet
      psoup push flights flights.csv.gz --null NA --rejects refused.csv
      psoup push flights 'export-*.csv' --encoding latin-1 --date-format '%d.%m.%Y %H:%M' --dry-run
      psoup push flights monday.parquet --whole --id monday
      psoup push flights few.csv --ids
      psoup push customers customers.csv
      psoup push --delete customers gone.csv
      psoup push --patch customers new-cities.csv
      tail -f events.jsonl | psoup push events - --format json

    Push the rows of CSV, JSON lines, Parquet or Arrow files; gzip, zstd, bz2 and lz4 are decompressed. Columns are
    found by name; types come from the stream. The command reconnects by itself, and no row is taken twice. A row that
    does not fit ends the push, unless --rejects takes such rows. The message says how many rows were taken before it;
    none with --whole. When the command ends, the rows are on disk, and in every answer unless they wait for the
    watermark.

    Rows that are too late, or too far ahead of the clock, are refused and counted. The other rows are taken. --rejects
    lists the refused rows, too. The exit code is 0 if all rows were taken, and 6 if some were refused. It is 5 if all
    were refused. With --refused raise such a row ends the push; --whole then takes all rows or none. With --refused
    divert such rows go into the stream STREAM_late, which is created if it is missing.

    In a table each row replaces the row with its key, or is new. A row with true in a column _deleted deletes its key.
    With --delete every row does so. With --patch a row keeps the values of columns that the file lacks.

    With --ids a line is printed for each row that was taken: its number, from 0, and its tuple ID. In event time a row
    gets its ID when the watermark passes it.
    """
    _check_flags(batch_id, whole, since, delete, patch, refused)
    options = file_options(
        delimiter=delimiter,
        quote=quote,
        encoding=encoding,
        null=null,
        decimal=decimal,
        thousands=thousands,
        rename=rename,
        no_header=no_header,
        ignore_extra=ignore_extra or delete,
        date_format=date_format,
        time_unit=time_unit,
        timezone=timezone,
    )
    paths = files_of(files, format)
    rejected = Rejects(rejects, [path for path, _ in paths]) if rejects or dry_run else None
    source = PushedFiles(paths, options, rejected, deletes=delete, patches=patch)
    try:
        with connect(address, timeout) as client:
            if rejected is not None:
                source.text_bytes = client.info().text_bytes
            if dry_run:
                result = _check_rows(source, client, stream)
            else:
                begin = partial(client.stage, stream, producer=batch_id, since=since or 0) if whole else None
                result = _send(source, client, stream, begin, refused, ids, as_json, timeout)
    finally:
        if rejected is not None:
            rejected.close()
    diverted = late_name(stream) if refused is Refusal.DIVERT and result.late + result.ahead else ""
    _report(source, result, rejects, as_json, dry_run, diverted)


def _check_flags(
    batch_id: str | None, whole: bool, since: int | None, delete: bool, patch: bool, refused: Refusal
) -> None:
    """Raise BadParameter for flags that exclude each other, and for a flag without the one that it needs."""
    if delete and patch:
        raise typer.BadParameter("--delete and --patch exclude each other; patch in one call, and delete in another")
    if whole and refused is Refusal.DIVERT:
        raise typer.BadParameter("--refused divert is for pushes in several batches; leave --whole out")
    if batch_id is not None and not whole:
        raise typer.BadParameter("--id names a file that is taken as a whole; give --whole too")
    if batch_id == "":
        raise typer.BadParameter("--id is empty; name the file, or leave --id out")
    if since is not None and batch_id is None:
        raise typer.BadParameter("--since belongs to a name; give --whole and --id too")


def _send(
    source: PushedFiles,
    client: Client,
    stream: str,
    begin: Callable[[], Stage] | None,
    refused: Refusal,
    ids: bool,
    as_json: bool,
    timeout: float | None,
) -> PushResult:
    """Send the rows: as one batch if `begin` opens a stage, else in several batches.

    With `ids`, print the tuple IDs.
    """

    def show(result: PushResult, taken: int) -> None:
        if ids:
            print_ids(client, result, taken, as_json)

    if begin is None:
        if ids or refused is not Refusal.COUNT:
            return push_pieces(source, client, stream, refused.value, show)
        return push_files(source, client, stream, timeout)
    result = _push_whole(source, client, stream, begin, "raise" if refused is Refusal.RAISE else "count")
    show(result, 0)
    return result


def _report(
    source: PushedFiles, result: PushResult, rejects: str | None, as_json: bool, dry_run: bool, diverted: str
) -> None:
    """Report the outcome for the rows. `diverted`: the stream that has the refused rows, or "".

    Raises Exit if some rows were refused, and FailedPrecondition (ROWS_REFUSED) if all were.
    """
    rejected = source.rejects.count if source.rejects else 0
    refused = result.late + result.ahead + rejected
    hints = source.hints(result.late, result.ahead)
    if hints and rejects is None and not diverted:
        hints.append("--rejects FILE lists the refused rows")
    if as_json:
        print_json({**facts(result), "rejected": rejected, "dry_run": dry_run})
    elif source.rejects is not None and rejects is None:
        for line in source.rejects.first:
            message(line)
    if refused and not result.accepted:
        copy = f"; {diverted} has the late ones" if diverted else ""
        copy += "".join(f". {hint}" for hint in hints)
        raise FailedPrecondition(
            f"{source.name}: {counted(refused, 'row')} {verb(refused, 'is', 'are')} {_why(result, rejected)},"
            f" and none {'would be' if dry_run else 'was'} taken{copy}",
            reason="ROWS_REFUSED",
        )
    if not as_json:
        written = f" ({rejects})" if rejects else ""
        message(
            summary(result, rejected, written, dry_run, diverted)
            if source.rows or refused or result.accepted
            else f"{source.name} has no rows."
        )
    for hint in hints if not as_json else ():
        message(f"{hint}.")
    if refused:
        raise typer.Exit(REFUSED)


def facts(result: PushResult) -> dict[str, Any]:
    """Return the counts of a result that --json shows."""
    counts = dataclasses.asdict(dataclasses.replace(result, refused=NONE_REFUSED, sent=()))
    return {name: fact for name, fact in counts.items() if name not in ("refused", "stream", "sent")}


def _why(result: PushResult, rejected: int) -> str:
    why = [(result.late, "too late"), (result.ahead, "too far ahead"), (rejected, "rejected")]
    return " or ".join(words for count, words in why if count)


def _check_rows(source: PushedFiles, client: Client, stream: str) -> PushResult:
    """Read and check all rows without sending them. Returns the number that a push would send."""
    info, rows = source.target(client, stream), 0
    try:
        for table in source.tables(info, lambda: PushResult(accepted=source.rows)):
            rows += len(table)
    except InvalidData as problem:
        raise source.named(problem, "No row was sent.") from None
    return PushResult(accepted=rows)


def _push_whole(
    source: PushedFiles, client: Client, stream: str, begin: Callable[[], Stage], refused: Literal["raise", "count"]
) -> PushResult:
    info, times = source.target(client, stream), list[Any]()
    listed = source.rejects is not None and bool(info.time_column)
    forgotten = PushResult() if listed and source.live else None  # keep all places: a pipe is read only once
    try:
        with begin() as stage:
            again = stage.result is not None  # the batch was taken before: only write its rejected rows again
            wanted = not again or source.rejects is not None
            for rows in source.tables(info, lambda: forgotten or PushResult(accepted=source.rows)) if wanted else ():
                table = source.table(rows, info)
                if listed:
                    times.append(instants(table[info.time_column]))
                if not again:
                    stage.add(table)
            result = stage.commit(refused=refused)
    except (InvalidData, ResourceExhausted) as problem:
        if not (isinstance(problem, RowsRefused) and problem.late + problem.ahead):
            raise source.named(problem, "No row was taken.") from None
        if times:
            late_rows = late_rows_of(problem)
            source.find_refused(refused_rows(np.concatenate(times), problem.late, problem.ahead, 0, late_rows), info)
        raise source.refused(problem, info) from None
    if times and result.late + result.ahead and source.rows == result.accepted + result.late + result.ahead:
        numbers = result.refused.late if info.primary_key else None
        source.find_refused(refused_rows(np.concatenate(times), result.late, result.ahead, 0, numbers), info)
    return result


def summary(result: PushResult, rejected: int = 0, written: str = "", dry_run: bool = False, diverted: str = "") -> str:
    """Describe the outcome for the rows in one sentence. `diverted`: the stream that has the refused rows, or ""."""
    refused = [f"{n:,} {why}" for n, why in ((result.late, "too late"), (result.ahead, "too far ahead")) if n]
    refused += [f"{rejected:,} rejected"] if rejected else []
    outcome = f"refused, and kept in {diverted}" if diverted else "refused"
    said = f"; {outcome}: {', '.join(refused)}{written}" if refused else ""
    if dry_run:
        return f"{counted(result.accepted, 'row')} would be sent{said}; none was."
    if result.duplicates and result.duplicates == result.batches:
        return f"Nothing was sent: {counted(result.accepted, 'row')} had been taken before under this name{said}."
    text = f"{counted(result.accepted, 'row')} taken in {counted(result.batches, 'batch')}{said}"
    if result.replaced:
        text += f"; {result.replaced:,} replaced by a later row with the same key and time"
    return text + (f"; watermark {iso(result.watermark)}." if result.watermark else ".")
