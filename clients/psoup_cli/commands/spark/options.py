"""The options that commands of Spark share, and what their texts mean."""

from __future__ import annotations

from typing import Annotated, Any

import typer

Master = Annotated[str, typer.Option("--master", metavar="URL", help="The Spark master.")]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting of the Spark session; may be given again."),
]
Checkpoint = Annotated[
    str, typer.Option("--checkpoint", metavar="DIR", help="Where Spark remembers what was taken.", show_default=False)
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
    str | None, typer.Option("--schema", metavar="DDL", help="What the files hold, if not the columns of the stream.")
]
Select = Annotated[
    str | None,
    typer.Option("--select", metavar="EXPRESSIONS", help="What becomes of the source's columns, in Spark's SQL."),
]
Every = Annotated[
    str | None, typer.Option("--every", metavar="INTERVAL", help="Take a batch this often; by default at once.")
]
Once = Annotated[bool, typer.Option("--once", help="Take what is there, then end.")]
PatienceSeconds = Annotated[
    float, typer.Option("--patience", metavar="SECONDS", help="Wait this long for a service that is away.", min=0)
]
Mapping = Annotated[
    list[str] | None,
    typer.Option("--mapping", metavar="COLUMN=EXPRESSION", help="What a column is, in Spark's SQL; may be repeated."),
]
Quarantine = Annotated[
    str | None, typer.Option("--quarantine", metavar="DIR", help="Where rows go that do not fit, with the reason.")
]


def pairs(flag: str, texts: list[str] | None) -> dict[str, str]:
    """KEY=VALUE texts as a dict; a usage error for what is none."""
    found = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise typer.BadParameter(f"{flag} {text!r} is not of the form KEY=VALUE")
        found[key] = value
    return found


def trigger_of(every: str | None, once: bool) -> dict[str, Any] | None:
    """What --every and --once mean to Spark; a usage error for both."""
    if every and once:
        raise typer.BadParameter("--once ends after what is there, and --every goes on; give one of them")
    return {"availableNow": True} if once else {"processingTime": every} if every else None
