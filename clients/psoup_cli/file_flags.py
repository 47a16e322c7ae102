"""Options of the commands that read files of rows."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from psoup_cli.files.number_form import form_of
from psoup_cli.files.options import FileOptions, renames_of
from psoup_cli.files.row_files import format_of, paths_of
from psoup_client.columns.casts import TimeOptions, unit_of


class FileFormat(StrEnum):
    """The formats of files that the commands read."""

    csv = "csv"
    json = "json"
    parquet = "parquet"
    arrow = "arrow"


Format = Annotated[
    FileFormat | None, typer.Option("--format", help="Format of the file, if its name does not show it.")
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter", metavar="CHAR", help="CSV: the delimiter of fields, \\t for a tab; detected by default."
    ),
]
Quote = Annotated[
    str | None,
    typer.Option("--quote", metavar="CHAR", help="CSV: the quote of fields, or none; detected by default."),
]
Encoding = Annotated[
    str | None,
    typer.Option("--encoding", metavar="NAME", help="Encoding of a text: latin-1, cp1252, utf-16 … UTF-8 by default."),
]
Null = Annotated[
    list[str] | None,
    typer.Option(
        "--null", metavar="TEXT", help="CSV: read this text as NULL (an empty field is NULL, too); repeatable."
    ),
]
DecimalMark = Annotated[
    str | None,
    typer.Option("--decimal", metavar="CHAR", help="CSV: the decimal separator of numbers, a point or a comma."),
]
ThousandsMark = Annotated[
    str | None,
    typer.Option(
        "--thousands", metavar="CHAR", help="CSV: the thousands separator of numbers: , . ' _ or a blank in quotes."
    ),
]
Rename = Annotated[
    list[str] | None,
    typer.Option(
        "--rename", metavar="NAME=COLUMN", help="The column for a name in the file: 'Amount (EUR)=amount'; repeatable."
    ),
]
NoHeader = Annotated[
    bool, typer.Option("--no-header", help="CSV: the first line is a row; fields are the stream's columns in order.")
]
IgnoreExtra = Annotated[bool, typer.Option("--ignore-extra", help="Leave out columns that the stream does not have.")]
DateFormat = Annotated[
    list[str] | None,
    typer.Option(
        "--date-format",
        metavar="FORMAT",
        help="How dates and times are written, as in %d.%m.%Y %H:%M; repeatable. ISO 8601 is always read.",
    ),
]
TimeUnit = Annotated[
    str | None,
    typer.Option("--time-unit", metavar="s|ms|us|ns", help="Unit of numbers in time columns, counted from 1970."),
]
TimeZone = Annotated[
    str | None,
    typer.Option(
        "--timezone",
        metavar="NAME",
        envvar="PSOUP_TIMEZONE",
        show_envvar=False,
        help="Zone of times without one, such as Europe/Berlin (else PSOUP_TIMEZONE, else UTC).",
    ),
]
Delete = Annotated[
    bool,
    typer.Option(
        "--delete",
        help="Delete the rows with these keys from a table; columns that are not in the key are ignored.",
        show_default=False,
    ),
]
Patch = Annotated[
    bool,
    typer.Option(
        "--patch",
        help="Change only the columns that the files have; the rows of these keys keep the other columns.",
        show_default=False,
    ),
]


def file_options(
    *,
    delimiter: str | None = None,
    quote: str | None = None,
    encoding: str | None = None,
    null: list[str] | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    rename: list[str] | None = None,
    no_header: bool = False,
    ignore_extra: bool = False,
    date_format: list[str] | None = None,
    time_unit: str | None = None,
    timezone: str | None = None,
) -> FileOptions:
    """Build the options of reading from the flags. Raises BadParameter."""
    try:
        return FileOptions(
            nulls=tuple(null or ()),
            delimiter="\t" if delimiter == "\\t" else delimiter,
            quote="" if quote == "none" else quote,
            encoding=encoding,
            header=not no_header,
            ignore_extra=ignore_extra,
            numbers=form_of(decimal, thousands),
            renames=renames_of(rename or ()),
            times=TimeOptions(unit_of(time_unit or None), tuple(date_format or ()), timezone or None),
        )
    except ValueError as problem:
        said = str(problem).replace("time_unit is", "--time-unit").replace("timezone is", "--timezone")
        raise typer.BadParameter(said if said.startswith("--") else f"--date-format {said}") from None


def files_of(given: list[str], format: FileFormat | None) -> list[tuple[str, str]]:
    """Find the files by names and patterns, each with its format. Raises BadParameter if one is missing or unclear."""
    try:
        files = [(path, format_of(path, format.value if format else None)) for path in paths_of(given)]
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from None
    for path, _ in files:
        if path != "-" and Path(path).is_dir():
            raise typer.BadParameter(f"{path} is not a file")
    return files
