"""The results of a run of experiments with its machine: a file of JSON for programs, and Markdown for readers.

    results.write(Path("build/reproduce.json"))     {"machine": {…}, "size": "quick", "experiments": [{…}, …]}
    Results.read(path)                              the same again
    results.table(), results.sections("pictures")   Markdown

A table begins with the experiments that have failed, and those that differ. Sections follow the numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.reproduce.experiment import Experiment, table
from benchmarks.tool.machine import processor
from benchmarks.tool.report import head_line


@dataclass(frozen=True, slots=True)
class Results:
    """Experiments that ran on one machine. `size`: the form of the run, `whole`, `quick` or `tiny`."""

    machine: Mapping[str, Any]
    size: str
    experiments: Sequence[Experiment]

    @classmethod
    def read(cls, path: Path) -> Results:
        """The results of a file."""
        content = json.loads(path.read_text())
        rows = [Experiment.from_dict(row) for row in content["experiments"]]
        return cls(content["machine"], content["size"], rows)

    def write(self, path: Path) -> None:
        """Write the file, with a line for each experiment."""
        rows = [experiment.to_dict() for experiment in self.experiments]
        machine, *lines = (json.dumps(part, ensure_ascii=False, default=float) for part in (self.machine, *rows))
        listed = ",\n".join(lines)
        path.write_text(f'{{"machine": {machine},\n"size": "{self.size}",\n"experiments": [\n{listed}\n]}}\n')

    @property
    def description(self) -> str:
        """The machine, the form and the date of the run."""
        machine = self.machine
        return f"{head_line(dict(machine))}; {self.size} form, commit {machine['commit']}, {machine['date']}"

    @property
    def note(self) -> str:
        """The same in fewer words, for pictures."""
        machine = dict(self.machine)
        return f"{processor(machine)}; {self.size} form, commit {machine['commit']}, {machine['date']}"

    def lines(self, folder: str) -> Iterator[str]:
        """The whole run as Markdown. `folder`: where the pictures are, seen from the file; empty without pictures."""
        yield from ("# The papers' experiments", "", self.description, "", *self.table(), *self.sections(folder))

    def table(self, missing: Mapping[str, str] | None = None) -> Iterator[str]:
        """A row for each experiment. `missing`: numbers and figures of experiments that are left out, the last rows."""
        ordered = sorted(self.experiments, key=lambda experiment: (experiment.severity, experiment.number))
        rows = [
            [
                f"[{experiment.number}](#{_anchor(_heading(experiment))})",
                experiment.source,
                experiment.published,
                experiment.here(),
                experiment.conclusion(),
            ]
            for experiment in ordered
        ]
        rows += [[number, figure, "", "", "left out"] for number, figure in (missing or {}).items()]
        yield from table(["number", "figure", "published", "here", "state"], rows)

    def sections(self, folder: str) -> Iterator[str]:
        """A section for each experiment, with its picture."""
        for experiment in self.experiments:
            yield from (f"## {_heading(experiment)}", "")
            if folder and has_picture(experiment):
                yield from (f"![{_heading(experiment)}]({folder}/{experiment.number}.svg)", "")
            yield from (f'{experiment.state.value}: `make reproduce ARGS="--only {experiment.number}"`', "")
            yield from experiment.lines()


def has_picture(experiment: Experiment) -> bool:
    """Whether there is something to draw."""
    return any(experiment.series.values())


def _heading(experiment: Experiment) -> str:
    return f"{experiment.number}: {experiment.source}"


def _anchor(heading: str) -> str:
    """The anchor that Markdown's renderers give a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
