"""psoup doctor: whether everything in a data directory is as it was written."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from psoup_cli.common import AsJson, message
from psoup_cli.output import byte_bar, print_json
from psoup_client.wording import counted

if TYPE_CHECKING:
    from psoup_storage.durable.findings import Finding, Report

WELL, WRONG, NOT_EXAMINED = 0, 1, 2


def doctor(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The data directory.", show_default=False)],
    repair: Annotated[
        bool, typer.Option("--repair", help="Remove what nothing needs. Never touches what was acknowledged.")
    ] = False,
    aside: Annotated[
        bool, typer.Option("--set-aside", help="Take damaged chunks and batches out, so that the service can start.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """\b
    Examples:
      psoup doctor psoup-data
      psoup doctor psoup-data --repair
      psoup doctor psoup-data --set-aside
      psoup doctor psoup-data --json

    Examine a data directory that no service runs on: every file, every row, every checksum, and whether all of it fits
    together. Says which tuples are lost, if any are. Writes nothing without --repair or --set-aside.

    With --set-aside, for want of a backup: a damaged chunk and those of its stream before it count as expired; damaged
    batches and queries leave the log, and IDs are new. All is kept in the folder set-aside; every start tells of it.

    \b
    Exit codes: 0 all is well, 1 something is wrong, 2 it could not be examined.
    """
    from psoup.errors import PSoupError
    from psoup_storage.durable.doctor import examine

    try:
        with byte_bar("examined") as progress:
            report = examine(directory, repair=repair, aside=aside, progress=progress)
    except PSoupError as problem:
        message(f"psoup: {problem.message}")
        raise typer.Exit(NOT_EXAMINED) from None
    if as_json:
        for finding in report.findings:
            print_json(dataclasses.asdict(finding))
        print_json({"path": report.path, "well": report.well, **report.figures})
    else:
        _print(report)
    raise typer.Exit(WELL if report.well else WRONG)


def _print(report: Report) -> None:
    for finding in report.findings:
        print(_lines(finding))
    figures = ", ".join(f"{count:,} {what}" for what, count in report.figures.items())
    print(f"Examined {report.path}: {figures}.")
    wrong = sum(finding.severity != "note" and not finding.repaired for finding in report.findings)
    print("All is well." if report.well else f"{counted(wrong, 'thing')} wrong.")


def _lines(finding: Finding) -> str:
    text = f"{finding.severity.value}: {finding.place}: {finding.what}"
    if finding.lost:
        text += f"\n  lost: {finding.lost}"
    if finding.repaired:
        return text + "\n  repaired"
    return text + (f"\n  what helps: {finding.repair}" if finding.repair else "")
