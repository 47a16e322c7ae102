"""Options of the commands that feed rows from another system: Kafka, PostgreSQL, Spark."""

from __future__ import annotations

from typing import Annotated

import typer

TOLD_SECONDS = 60.0
"""The least seconds between two messages about the progress, where no terminal shows it."""

FeedPatience = Annotated[
    float,
    typer.Option("--patience", metavar="SECONDS", help="Give up if one side is away for this long.", min=0.0),
]


def pairs(flag: str, texts: list[str] | None) -> dict[str, str]:
    """Parse texts KEY=VALUE to a dict. Any other text is a usage error."""
    values = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise typer.BadParameter(f"{flag} {text!r} is not of the form KEY=VALUE")
        values[key] = value
    return values
