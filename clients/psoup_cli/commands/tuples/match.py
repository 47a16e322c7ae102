"""psoup match: which standing queries the rows of a file would match."""

from __future__ import annotations

from typing import Annotated

import pyarrow.compute as pc
import typer

from psoup_cli.commands.tuples.matches import print_pairs
from psoup_cli.common import REFUSED, Address, AsJson, Labels, Timeout, WaitFor, connect, labels_of, message
from psoup_cli.file_flags import (
    DateFormat,
    DecimalMark,
    Delimiter,
    Encoding,
    Format,
    IgnoreExtra,
    NoHeader,
    Null,
    Quote,
    Rename,
    ThousandsMark,
    TimeUnit,
    file_options,
    files_of,
)
from psoup_cli.files.row_files import open_rows
from psoup_client.columns.convert import to_table
from psoup_client.phrases import counted, verb

Stream = Annotated[
    str, typer.Argument(metavar="STREAM", help="The stream that could take the rows.", show_default=False)
]
File = Annotated[str, typer.Argument(metavar="FILE", help="A file, or - for standard input.", show_default=False)]


def match(
    stream: Stream,
    file: File,
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
    label: Labels = None,
    wait_for: WaitFor = None,
    as_json: AsJson = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup match flights new.csv
      echo '{"origin": "JFK", "delay": 90}' | psoup match flights - --format json

    Print which standing queries the rows of a file would match if they were pushed now. Each line has the row, counted
    from 0, the ID of a query, and its key, if it has one. Nothing is stored. Windows are not applied. Rows that a push
    would refuse as too late or too far ahead match nothing. They are counted, and the exit code is 6.
    """
    ((path, kind),), rows, late, ahead = files_of([file], format), 0, 0, 0
    options = file_options(
        delimiter=delimiter,
        quote=quote,
        encoding=encoding,
        null=null,
        decimal=decimal,
        thousands=thousands,
        rename=rename,
        no_header=no_header,
        ignore_extra=ignore_extra,
        date_format=date_format,
        time_unit=time_unit,
    )
    with connect(address, timeout) as client:
        info = client.describe(stream)
        for piece in open_rows(path, kind, info, options):
            piece.check()
            table = to_table(piece.rows, info, options.times)
            for page in client.match_pages(stream, table, labels=labels_of(label), wait_for=wait_for):
                late, ahead = late + page.late, ahead + page.ahead
                print_pairs(page.pairs.set_column(0, "row", pc.add(page.pairs["row"], rows)), as_json)
            rows += len(table)
    facts = [
        f"{counted(count, 'row')} {verb(count, 'is', 'are')} too {how}" for count, how in _ways(late, ahead) if count
    ]
    if facts:
        message(f"{' and '.join(facts)}: a push would refuse {verb(late + ahead, 'it', 'them')}.")
        raise typer.Exit(REFUSED)


def _ways(late: int, ahead: int) -> list[tuple[int, str]]:
    return [(late, "late"), (ahead, "far ahead")]
