"""psoup audit: the log of changes and refusals, with their callers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from psoup_cli.commands.directory.doctor import NOT_EXAMINED, WRONG
from psoup_cli.common import AsJson, message
from psoup_cli.output import print_json, print_list, to_the_second
from psoup_client.phrases import counted

if TYPE_CHECKING:
    from psoup_service.gate.audit_chain import Verified

app = typer.Typer(cls=TyperGroup, no_args_is_help=True, rich_markup_mode=None, add_completion=False)

_MOST = 1_000
_COLUMNS = ("time", "tenant", "principal", "token", "peer", "call", "object", "outcome")

Place = Annotated[
    Path, typer.Argument(metavar="PATH", help="A data directory, or the audit log itself.", show_default=False)
]


@app.callback()
def audit() -> None:
    """\b
    Examples:
      psoup audit show psoup-data
      psoup audit verify psoup-data

    Read the audit log of a service with access tokens: each change and each refusal, with its caller.
    """


@app.command("show", short_help="Show changes and refusals, with their callers.")
def show(
    path: Place,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, metavar="N", help="Number of lines.")] = _MOST,
    as_json: AsJson = False,
) -> None:
    """\b
    Examples:
      psoup audit show psoup-data --limit 20
      psoup audit show /archive/audit-2026-05.jsonl --json

    Show the last lines of an audit log, oldest first. The service may run meanwhile.
    """
    from collections import deque

    from psoup_service.gate.audit_chain import lines_of

    lines: list[dict[str, Any]] = list(deque(lines_of(_file(path)), limit))
    if as_json:
        for line in lines:
            print_json(line)
        return
    facts = [{name: line.get(name, "") for name in (*_COLUMNS, "unwritten", "before")} for line in lines]
    rows = [[to_the_second(str(line["time"])), *(line[name] for name in _COLUMNS[1:])] for line in facts]
    print_list(list(_COLUMNS), rows, facts)


@app.command("verify", short_help="Check that the audit log is as it was written.")
def verify(
    path: Place,
    last: Annotated[
        str,
        typer.Option("--last", metavar="HASH", help="A hash that an earlier verify printed; the log must contain it."),
    ] = "",
) -> None:
    """\b
    Examples:
      psoup audit verify psoup-data
      psoup audit verify psoup-data --last 5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef

    Follow the chain of hashes through an audit log. A line that was changed, removed or inserted breaks it: exit code
    1. To notice lines cut off at the end, note the hash that this command prints, and give it later with --last. The
    same hash shows whether lines at the beginning are missing; without it they may be in an earlier file.
    """
    from psoup_service.gate import audit_chain

    outcome = audit_chain.verify(_file(path), last)
    torn = f", {counted(outcome.torn, 'line')} cut off in writing" if outcome.torn else ""
    if problem := _problem(outcome, last):
        message(f"psoup: {problem}{torn}")
        raise typer.Exit(WRONG)
    print(outcome.last)
    message(
        f"{counted(outcome.lines, 'line')}, each follows from the one before{torn}. The hash of the last is printed."
    )
    if outcome.after:
        message(
            f"The first follows a line of an earlier file with the hash {outcome.after}, or lines before it are gone."
        )


def _problem(outcome: Verified, last: str) -> str:
    """Describe the fault of the log; "" if there is none."""
    if not outcome.lines:
        return "the log is empty: nothing was written yet, or all lines were removed"
    if outcome.foreign:
        return f"line {outcome.foreign:,} is not a line of an audit log: it was changed there, or the file is not one"
    if outcome.broken:
        return (
            f"line {outcome.broken:,} does not follow from line {outcome.broken - 1:,}: one of the two was changed, or"
            " lines were taken out or put in between them"
        )
    if last and not outcome.there:
        return f"no line has the hash {last[:64]}: lines are missing, or it is of another log"
    return ""


def _file(path: Path) -> Path:
    from psoup.errors import PSoupError
    from psoup_service.gate.audit_chain import audit_file

    try:
        return audit_file(path)
    except PSoupError as problem:
        message(f"psoup: {problem.message}")
        raise typer.Exit(NOT_EXAMINED) from None
