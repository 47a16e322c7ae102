"""The table that people read, and the file that programs read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.tool.machine import instructions, processor
from benchmarks.tool.measure import REASON, Row, Sample

SHOWN = 60
"""Characters of a failure in the table; below it stands more."""


def json_line(row: Row, machine: dict[str, Any]) -> str:
    """A row as an object; each carries the machine, so that rows of several files can be put together."""
    return json.dumps(row.to_dict() | {"machine": machine})


def write_json(path: Path, lines: Sequence[str]) -> None:
    """A list of the lines of rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def print_table(rows: Sequence[Row], machine: dict[str, Any], console: Console) -> None:
    """The table with the processor at its head, the machine below it, and the notes of rows."""
    title = f"PSoup beside its peers, {machine['date']}: medians (10th to 90th percentile), same run"
    title += f"\n{head_line(machine)}"
    table = Table(title=title, title_justify="left")
    for name in ("row", "PSoup", "unit", "peer", "peer's", "ratio", "target", "met"):
        table.add_column(name, justify="right" if name in ("PSoup", "peer's", "ratio") else "left", no_wrap=True)
    before = None
    for row in rows:
        if before is not None and before.name != row.name:
            table.add_section()
        same = before is not None and before.name == row.name
        table.add_row(*_cells(row, same))
        before = row
    console.print(table)
    console.print(machine_line(machine), highlight=False)
    for note in dict.fromkeys(row.note for row in rows if row.note):
        console.print(note, highlight=False)


def head_line(machine: dict[str, Any]) -> str:
    """The processor and the instructions in use: without them a figure says nothing."""
    return f"{processor(machine)}; {instructions(machine)}"


def machine_line(machine: dict[str, Any]) -> str:
    """The machine of the figures, in a line."""
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    return (
        f"{head_line(machine)}; {machine['memory_gib']} GiB, huge pages {machine['huge_pages'] or 'unknown'}, "
        f"{machine['system']}, "
        f"Python {machine['python']}, {packages}; load at start {machine['load_at_start']}; "
        f"commit {machine['commit']}, {machine['date']}"
    )


def _cells(row: Row, same: bool) -> tuple[str, ...]:
    """A line of the table; cells that are the `same` as in the line above are left out."""
    if row.failure:
        return row.name, "[red]failed[/]", "", escape(row.failure[:SHOWN]), "", "", "", "[red]no[/]"
    met = {None: "", True: "[green]yes[/]", False: "[red]no[/]"}[row.met]
    target = row.target.text(row.unit) if row.target else ""
    theirs = row.peer_sample
    return (
        "" if same else row.name,
        "" if same else _cell(row.sample),
        "" if same else row.unit,
        row.peer,
        "not here" if theirs is None else _cell(theirs),
        "" if theirs is None else f"{row.ratio:.2f}",
        target,
        met,
    )


def markdown(rows: Sequence[Row], machine: dict[str, Any] | None = None) -> str:
    """The table as Markdown: medians and ratios alone; with `machine` what it was measured on below it."""
    lines = [] if machine is None else [f"{head_line(machine)}", ""]
    lines += ["| row | PSoup | peer | ratio | target | met |", "|---|---|---|---|---|---|"]
    for row in rows:
        if row.failure:
            reason = row.failure[:REASON].replace("|", "\\|")
            lines.append(f"| `{row.name}` | failed | {reason} | | | no |")
            continue
        ours = f"{number(row.sample.median)} {row.unit}"
        theirs = "not here" if row.peer_sample is None else f"{number(row.peer_sample.median)} {row.unit}"
        ratio = "" if row.peer_sample is None else f"{row.ratio:.2f}"
        target = row.target.text(row.unit) if row.target else ""
        met = {None: "", True: "yes", False: "no"}[row.met]
        lines.append(f"| `{row.name}` | {ours} | {row.peer}: {theirs} | {ratio} | {target} | {met} |")
    if machine is not None:
        lines += ["", machine_line(machine)]
    return "\n".join(lines) + "\n"


def _cell(sample: Sample) -> str:
    return f"{number(sample.median)} ({number(sample.low)}–{number(sample.high)})"


def number(value: float) -> str:
    """Three digits or so, as a person would write it."""
    if value >= 100_000:
        return f"{value / 1e6:.2f} M" if value >= 1e6 else f"{value / 1e3:.0f} k"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.3g}"
