"""`python -m benchmarks.reproduce`: run the papers' experiments, print them, write build/reproduce.md and .json.

--list            the experiments: number, name
--only R03        an experiment by its number; --only figure: the experiments whose names begin so
--quick, --tiny   fewer and smaller points; --tiny: does it work?

A shape agrees with the paper, or differs in a stated way, or has failed. Exits with 1 if a shape or an experiment has
failed, and with 2 if an argument is wrong. In the tiny form timed shapes mean nothing, and only an experiment fails.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.reproduce.cacq_adapt import WORKLOADS, cacq_adapt
from benchmarks.reproduce.cacq_routing import cacq_routing
from benchmarks.reproduce.cacq_throughput import query_count, source_count, tuple_state
from benchmarks.reproduce.chain import chain_table
from benchmarks.reproduce.experiment import Experiment
from benchmarks.reproduce.figure7 import figure7a, figure7b
from benchmarks.reproduce.figure8 import figure8
from benchmarks.reproduce.figure9 import figure9
from benchmarks.reproduce.figure11 import figure11
from benchmarks.reproduce.shapes import State
from benchmarks.reproduce.static_example import static_example
from benchmarks.reproduce.static_queries import gain, heuristic, need
from benchmarks.reproduce.table2 import table2
from benchmarks.tool.machine import machine
from benchmarks.tool.report import head_line
from benchmarks.tool.run import Run, Size


class Entry(NamedTuple):
    """An experiment of the list."""

    number: str
    name: str
    make: Callable[[Run], Experiment]


EXPERIMENTS = (
    Entry("R01", "figure7a", figure7a),
    Entry("R02", "figure7b", figure7b),
    Entry("R03", "figure8", figure8),
    Entry("R04", "table2", table2),
    Entry("R05", "figure9", figure9),
    Entry("R06", "figure11", figure11),
    Entry("R07", "cacq_state", tuple_state),
    Entry("R08", "cacq_queries", query_count),
    Entry("R09", "cacq_sources", source_count),
    Entry("R10", "cacq_routing", cacq_routing),
    *(
        Entry(number, f"cacq_adapt{number[-1]}", partial(cacq_adapt, number, f"cacq_adapt{number[-1]}", workload))
        for number, workload in zip(("R11", "R12", "R13"), WORKLOADS, strict=True)
    ),
    Entry("R22", "static_example", static_example),
    Entry("R23", "static_need", need),
    Entry("R24", "static_gain", gain),
    Entry("R25", "static_heuristic", heuristic),
    Entry("R26", "chain", chain_table),
)


def main() -> int:
    """Run them; returns 1 if one has failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reproduce", description="Run the papers' experiments.")
    parser.add_argument(
        "--only", default="", metavar="NAME", help="the experiment with this number, or those whose names begin so"
    )
    parser.add_argument("--list", action="store_true", help="print the numbers and names, and run nothing")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="fewer and smaller points")
    size.add_argument("--tiny", action="store_true", help="too small for a shape: whether they work")
    parser.add_argument(
        "--out", type=Path, default=Path("build/reproduce.md"), metavar="FILE", help="and beside it .json"
    )
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{entry.number} {entry.name}" for entry in EXPERIMENTS))
        return 0
    chosen = [entry for entry in EXPERIMENTS if options.only == entry.number or entry.name.startswith(options.only)]
    if not chosen:
        parser.error(f"--only {options.only}: there is no such experiment; {_nearest(options.only)}")
    try:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.touch()
    except OSError as error:
        parser.error(f"--out {options.out}: {error.strerror}; name a file in a folder that can be written")
    run = Run(Size.TINY if options.tiny else Size.QUICK if options.quick else Size.WHOLE)
    results = list[Experiment]()
    for experiment in _made(chosen, run):
        results.append(experiment)
        ran = run.tiny and not experiment.failure
        print(f"{experiment.number} {experiment.source}: ran" if ran else experiment.summary(), flush=True)
        _write(options.out, results)  # as it goes: a run that is ended keeps what it has
    wrong = [experiment for experiment in results if experiment.state is State.FAILED]
    return int(any(experiment.failure or not options.tiny for experiment in wrong))


def _nearest(name: str) -> str:
    """The experiment that was probably meant."""
    names = [text for entry in EXPERIMENTS for text in (entry.number, entry.name)]
    near = difflib.get_close_matches(name, names, 1, 0)
    return f"did you mean {near[0]}? --list lists all"


def _made(entries: Sequence[Entry], run: Run) -> Iterator[Experiment]:
    """The experiments, one after the other; one that raises is a row with the reason."""
    for entry in entries:
        try:
            yield entry.make(run)
        except Exception as error:
            yield Experiment.failed(entry.number, entry.name, error)


def _write(out: Path, results: Sequence[Experiment]) -> None:
    rows = [f"- {experiment.summary()}" for experiment in results]
    text = [head_line(machine()), "", *rows, "", *(line for experiment in results for line in experiment.lines())]
    out.write_text("\n".join(text))
    out.with_suffix(".json").write_text(json.dumps([experiment.to_dict() for experiment in results], indent=1))


if __name__ == "__main__":
    sys.exit(main())
