"""The table that people read, and the file that programs read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.measure import Row, Sample


def write_json(path: Path, rows: Sequence[Row], machine: dict[str, Any]) -> None:
    """One object for each row; each carries the machine, so that rows of several files can be put together."""
    path.parent.mkdir(parents=True, exist_ok=True)
    objects = [row.to_dict() | {"machine": machine} for row in rows]
    path.write_text(json.dumps(objects, indent=2) + "\n")


def print_table(rows: Sequence[Row], machine: dict[str, Any], console: Console) -> None:
    """The table, the machine below it, and what each row means."""
    table = Table(title="PSoup beside its peers: medians (10th to 90th percentile), same run", title_justify="left")
    for name in ("row", "PSoup", "unit", "peer", "peer's", "ratio", "target", "met"):
        table.add_column(name, justify="right" if name in ("PSoup", "peer's", "ratio") else "left", no_wrap=True)
    for row in rows:
        met = {None: "", True: "[green]yes[/]", False: "[red]no[/]"}[row.met]
        target = row.target.text(row.unit) if row.target else ""
        cells = (
            row.name,
            _cell(row.sample),
            row.unit,
            row.peer,
            _cell(row.peer_sample),
            f"{row.ratio:.2f}",
            target,
            met,
        )
        table.add_row(*cells)
    console.print(table)
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    console.print(
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}, "
        f"Python {machine['python']}, {packages}; load at start {machine['load_at_start']}; commit {machine['commit']}",
        highlight=False,
    )
    for note in dict.fromkeys(f"{row.name}: {row.note}" for row in rows if row.note):
        console.print(note, highlight=False)


def print_markdown(rows: Sequence[Row], console: Console) -> None:
    """The table as the README shows it: medians and ratios alone."""
    lines = ["| row | PSoup | peer | ratio | target |", "|---|---|---|---|---|"]
    for row in rows:
        ours, theirs = (f"{_number(value.median)} {row.unit}" for value in (row.sample, row.peer_sample))
        target = row.target.text(row.unit) if row.target else ""
        lines.append(f"| `{row.name}` | {ours} | {row.peer}: {theirs} | {row.ratio:.2f} | {target} |")
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def _cell(sample: Sample) -> str:
    return f"{_number(sample.median)} ({_number(sample.low)}–{_number(sample.high)})"


def _number(value: float) -> str:
    if value >= 100_000:
        return f"{value / 1e6:.2f} M" if value >= 1e6 else f"{value / 1e3:.0f} k"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
