"""The options that commands of Spark share, and functions that parse them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from psoup_client.columns import casts

Master = Annotated[str, typer.Option("--master", metavar="URL", help="The Spark master.")]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting of the Spark session; may be given again."),
]
Checkpoint = Annotated[
    str,
    typer.Option(
        "--checkpoint", metavar="DIR", help="Folder in which Spark records the taken rows.", show_default=False
    ),
]
Format = Annotated[str, typer.Option("--source", metavar="FORMAT", help="A streaming source of Spark.")]
Folder = Annotated[
    str | None, typer.Option("--path", metavar="DIR", help="The folder that files arrive in, for file sources.")
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="An option of the source; may be given again."),
]
Schema = Annotated[
    str | None,
    typer.Option("--schema", metavar="DDL", help="Columns of the files, if they are not those of the stream."),
]
Select = Annotated[
    str | None,
    typer.Option("--select", metavar="EXPRESSIONS", help="Columns computed from the source's columns, in Spark's SQL."),
]
Every = Annotated[
    str | None, typer.Option("--every", metavar="INTERVAL", help="Take a batch this often; by default at once.")
]
Once = Annotated[bool, typer.Option("--once", help="Take the available rows, then end.")]
PatienceSeconds = Annotated[
    float, typer.Option("--patience", metavar="SECONDS", help="Wait this long for a service that is away.", min=0)
]
Functions = Annotated[
    list[str] | None,
    typer.Option("--functions", metavar="MODULE", help="Load the service's own functions; may be given again."),
]
Folds = Annotated[
    list[str] | None,
    typer.Option(
        "--fold",
        metavar="STATEMENT",
        help="Write folds of an aggregate that is registered later; may be given again.",
    ),
]
Mapping = Annotated[
    list[str] | None,
    typer.Option(
        "--mapping", metavar="COLUMN=EXPRESSION", help="Compute a column, in Spark's SQL; may be given again."
    ),
]
TimeUnit = Annotated[
    str | None, typer.Option("--time-unit", metavar="s|ms|us|ns", help="Unit of times that are numbers since 1970.")
]
Quarantine = Annotated[
    str | None, typer.Option("--quarantine", metavar="DIR", help="Write rows that do not fit here, with the reason.")
]


class JobRefusal(StrEnum):
    """Choices of --refused."""

    COUNT = "count"
    RAISE = "raise"


Refused = Annotated[
    JobRefusal,
    typer.Option(
        "--refused", help="For rows that are too late or too far ahead: count them and go on, or end the job."
    ),
]


def unit_of(text: str | None) -> casts.TimeUnit | None:
    """Parse the unit of --time-unit. An unknown unit is a usage error."""
    try:
        return casts.unit_of(text)
    except ValueError as problem:
        raise typer.BadParameter(str(problem).replace("time_unit is", "--time-unit")) from None


def trigger_of(every: str | None, once: bool) -> dict[str, Any] | None:
    """Convert --every or --once to a trigger of Spark. Both options in one command are a usage error."""
    if every and once:
        raise typer.BadParameter("--once ends after what is there, and --every goes on; give one of them")
    return {"availableNow": True} if once else {"processingTime": every} if every else None
