"""psoup doctor: whether everything in a data directory is as it was written."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from psoup_cli.common import AsJson, message
from psoup_cli.legible import legible_lines
from psoup_cli.output import byte_bar, print_json
from psoup_client.phrases import counted, verb

if TYPE_CHECKING:
    from psoup_storage.durable.tools.findings import Finding, Report

WELL = 0
WRONG = 1
NOT_EXAMINED = 2
LOST = 3


Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The data directory.", show_default=False)]
Repair = Annotated[bool, typer.Option("--repair", help="Remove leftovers. Acknowledged data is never touched.")]
SetAside = Annotated[
    bool, typer.Option("--set-aside", help="Take damaged chunks and batches out, so that the service can start.")
]
Replay = Annotated[bool, typer.Option("--replay", help="Also rehearse a start, in a process with limited memory.")]
Memory = Annotated[
    int | None,
    typer.Option(
        "--memory", metavar="MIB", min=64, help="Memory for --replay; by default the free memory of the machine."
    ),
]
Functions = Annotated[
    list[str] | None,
    typer.Option("--functions", metavar="MODULE", help="Functions of your own, for --replay; repeatable."),
]
RotateKey = Annotated[
    bool, typer.Option("--rotate-key", help="Make a new key for the tokens of clients' copies; examines nothing.")
]


def doctor(
    directory: Directory,
    repair: Repair = False,
    aside: SetAside = False,
    replay: Replay = False,
    memory: Memory = None,
    functions: Functions = None,
    rotate: RotateKey = False,
    as_json: AsJson = False,
) -> None:
    """\b
    Examples:
      psoup doctor psoup-data
      psoup doctor psoup-data --replay --memory 2048
      psoup doctor psoup-data --replay --functions fraud.py
      psoup doctor psoup-data --repair
      psoup doctor psoup-data --set-aside
      psoup doctor psoup-data --rotate-key
      psoup doctor psoup-data --json

    Examine a data directory that no service runs on: every file, every row, every checksum, and whether all of it fits
    together. The doctor names the tuples that are lost, and writes nothing without --repair or --set-aside.

    Use --set-aside if there is no backup. A damaged chunk and all earlier chunks of its stream then count as expired.
    Damaged batches and queries leave the log, and queries get new IDs. All removed data is kept in the folder
    set-aside, and every start mentions it.

    With --replay, the doctor rehearses a start: sound data is replayed, covered and folded, and nothing is changed. If
    the rehearsal fails, or needs more than --memory, the doctor names the tuples, the expression, the queries and the
    way out. It also names queries that are not folded ahead because they would need too much memory. Queries that call
    functions of your own are tried only with --functions, the option of psoup serve.

    With --rotate-key, the doctor only replaces the key that signs the tokens of copies. Tokens of the previous key stay
    valid until the next replacement. A client that does not ask in between fetches its copies anew.

    Leftovers of a crash are named, but are not damage: the next start removes them, as --repair does.

    Exit codes: 0 all is well, 1 something is wrong, 2 it could not be examined, 3 what was damaged is set aside, and so
    lost to answers; the service starts.
    """
    from psoup.errors import PSoupError
    from psoup_storage.durable.tools.doctor import examine

    if rotate:
        _rotate(directory, bool(repair or aside or replay or memory or functions or as_json))
        return
    if functions and not replay:
        raise typer.BadParameter("--functions is for --replay")
    try:
        with byte_bar("examined") as progress:
            report = examine(directory, repair=repair, aside=aside, progress=progress)
        if replay:
            _replay(directory, memory, functions or [], report)
    except PSoupError as problem:
        message(f"psoup: {problem.message}")
        raise typer.Exit(NOT_EXAMINED) from None
    if as_json:
        _print_json(report)
    else:
        _print(report)
    raise typer.Exit(WRONG if not report.well else LOST if report.lost else WELL)


def _rotate(directory: Path, more: bool) -> None:
    """Replace the key that signs the tokens of copies. `more`: whether other options were given, which is an error."""
    from psoup.errors import PSoupError
    from psoup_service.sync.keys import rotate

    if more:
        raise typer.BadParameter("--rotate-key takes no other option: examine the directory before or afterwards")
    try:
        existing = rotate(directory)
    except PSoupError as problem:
        message(f"psoup: {problem.message}")
        raise typer.Exit(NOT_EXAMINED) from None
    print(
        "Tokens of copies have a new key; tokens of the previous key stay valid until the next replacement."
        if existing
        else "Tokens of copies have a key; there was none before."
    )


def _replay(directory: Path, memory: int | None, functions: list[str], report: Report) -> None:
    """Replay the directory in a child process and add the findings to the report. Damaged directories are skipped."""
    from psoup_service.process.rehearsal import available_mib, rehearse

    if any(finding.severity == "damage" and not finding.repaired for finding in report.findings):
        message("psoup: what is damaged is not replayed; see the findings")
        return
    report.findings += rehearse(directory, memory or available_mib(), functions=functions)


def _print_json(report: Report) -> None:
    for finding in report.findings:
        print_json(dataclasses.asdict(finding))
    print_json({"path": report.path, "well": report.well, "lost": report.lost, **report.figures})


def _print(report: Report) -> None:
    for finding in report.findings:
        print(legible_lines(_lines(finding)))
    figures = ", ".join(_figure(name, count) for name, count in report.figures.items())
    print(f"Examined {report.path}: {figures}.")
    if not report.well:
        wrong = len(report.wrong)
        print(f"{counted(wrong, 'thing')} {verb(wrong, 'is', 'are')} wrong.")
        return
    if report.left:
        print(f"{counted(report.left, 'leftover')} of a crash or a backup that was cut off: harmless.")
    for lost in report.lost:
        print(f"Set aside: {lost}")
    earlier = any(finding.place == "set-aside" for finding in report.findings)
    if report.lost:
        print("The service starts now, and answers without what was set aside. All else is well.")
    else:
        print("All that is left is well; what was set aside is lost." if earlier else "All is well.")


def _figure(name: str, count: int) -> str:
    """Write a count of the report with its noun, such as `tuples in chunks` or `queries`, in the singular for one."""
    if count != 1:
        return f"{count:,} {name}"
    first, *rest = name.split(" ")
    return " ".join(["1", {"queries": "query"}.get(first, first.removesuffix("s")), *rest])


def _lines(finding: Finding) -> str:
    text = f"{finding.severity.value}: {finding.place}: {finding.what}"
    if finding.lost:
        text += f"\n  lost: {finding.lost}"
    if finding.repaired:
        return text + ("\n  set aside" if finding.severity == "damage" else "\n  repaired")
    return text + (f"\n  what helps: {finding.repair}" if finding.repair else "")
