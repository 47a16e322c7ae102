"""`python -m benchmarks.reproduce`: run the papers' experiments, print a line for each, and write

    build/reproduce.md      the lines, and a section for each experiment
    build/reproduce.json    the same for programs
    build/reproduce/        a picture of each experiment: R01.png, R01.svg, …

--list            the experiments: number, name
--only R03        an experiment by its number; --only figure: the experiments whose names begin so
--quick, --tiny   fewer and smaller points; --tiny: does it work?

A shape agrees with the paper, or differs in a stated way, or has failed. Exits with 1 if a shape or an experiment has
failed, and with 2 if an argument is wrong. In the tiny form timed shapes mean nothing, only an experiment fails, and no
picture is drawn. A run that is ended by Ctrl-C keeps the experiments that it has finished, and exits with 130.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from benchmarks.reproduce.cacq_2002.adaptivity import WORKLOADS, cacq_adapt
from benchmarks.reproduce.cacq_2002.niagara import functions, selections
from benchmarks.reproduce.cacq_2002.routes import cacq_routing
from benchmarks.reproduce.cacq_2002.throughput import query_count, source_count, tuple_state
from benchmarks.reproduce.experiment import Experiment
from benchmarks.reproduce.out_file import make_out_file
from benchmarks.reproduce.promising_tuples.joins import promising_join
from benchmarks.reproduce.promising_tuples.selections import promising_selection
from benchmarks.reproduce.promising_tuples.summaries import summaries
from benchmarks.reproduce.psoup_2002.figure7 import figure7a, figure7b
from benchmarks.reproduce.psoup_2002.figure8 import figure8
from benchmarks.reproduce.psoup_2002.figure9 import figure9
from benchmarks.reproduce.psoup_2002.figure11 import figure11
from benchmarks.reproduce.psoup_2002.table2 import table2
from benchmarks.reproduce.results import Results, has_picture
from benchmarks.reproduce.shapes import State
from benchmarks.reproduce.static_optimization_2004.example import static_example
from benchmarks.reproduce.static_optimization_2004.queries import gain, heuristic, need
from benchmarks.reproduce.stream_2003.chain import chain_table
from benchmarks.reproduce.update_patterns_2005 import queries as update_queries
from benchmarks.tool.machine import machine
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
    Entry("R14", "niagara", selections),
    Entry("R15", "niagara_functions", functions),
    Entry("R16", "update_ftp_join", update_queries.ftp_join),
    Entry("R17", "update_telnet_join", update_queries.telnet_join),
    Entry("R18", "update_distinct", update_queries.distinct),
    Entry("R19", "update_negation", update_queries.negation),
    Entry("R20", "update_distinct_join", update_queries.distinct_join),
    Entry("R21", "update_negated_join", update_queries.negated_join),
    Entry("R22", "static_example", static_example),
    Entry("R23", "static_need", need),
    Entry("R24", "static_gain", gain),
    Entry("R25", "static_heuristic", heuristic),
    Entry("R26", "chain", chain_table),
    Entry("R27", "nile_summaries", summaries),
    Entry("R28", "nile_join", promising_join),
    Entry("R29", "nile_selection", promising_selection),
)


class Output:
    """The files of a run, and its pictures if `draws`. They are written anew after each experiment."""

    def __init__(self, out: Path, run: Run, *, draws: bool) -> None:
        self.out, self.draws = out, draws
        self.results = list[Experiment]()
        self.run = Results(machine(), run.size.value, self.results)

    def write(self) -> None:
        """Write the results, and the picture of the last one."""
        self.run.write(self.out.with_suffix(".json"))
        folder = self.out.with_suffix("")
        self.out.write_text("\n".join(self.run.lines(folder.name if self.draws else "")))
        if self.draws and self.results and has_picture(self.results[-1]):
            from benchmarks.reproduce.pictures import draw

            draw(self.results[-1], folder, self.run.note)


def main() -> int:
    """Run them; returns 1 if one has failed."""
    parser = _parser()
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{entry.number} {entry.name}" for entry in EXPERIMENTS))
        return 0
    chosen = [entry for entry in EXPERIMENTS if options.only == entry.number or entry.name.startswith(options.only)]
    if not chosen:
        parser.error(f"--only {options.only}: there is no such experiment; {_nearest(options.only)}")
    if not options.tiny and not find_spec("matplotlib"):
        parser.error("pictures need matplotlib, which is not installed; install it with: make setup")
    try:
        make_out_file(options.out)
    except OSError as error:
        parser.error(f"--out {options.out}: {error.strerror}; name a file such as build/r.md that can be written")
    run = Run(Size.TINY if options.tiny else Size.QUICK if options.quick else Size.WHOLE)
    output = Output(options.out, run, draws=not options.tiny)
    try:
        for experiment in _made(chosen, run):
            output.results.append(experiment)
            ran = run.tiny and not experiment.failure
            print(f"{experiment.number} {experiment.source}: ran" if ran else experiment.summary(), flush=True)
            output.write()
    except KeyboardInterrupt:
        output.write()  # Ctrl-C may have come while it was written
        print(
            f"ended by Ctrl-C; {len(output.results)} of {len(chosen)} experiments are in {options.out}", file=sys.stderr
        )
        return 130
    wrong = [experiment for experiment in output.results if experiment.state is State.FAILED]
    return int(any(experiment.failure or not options.tiny for experiment in wrong))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reproduce", description="Run the papers' experiments.")
    parser.add_argument(
        "--only", default="", metavar="NAME", help="the experiment with this number, or those whose names begin so"
    )
    parser.add_argument("--list", action="store_true", help="print the numbers and names, and run nothing")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="fewer and smaller points")
    size.add_argument("--tiny", action="store_true", help="too small for a shape: whether they work")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("build/reproduce.md"),
        metavar="FILE",
        help="beside it .json, and a folder of pictures",
    )
    return parser


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


if __name__ == "__main__":
    sys.exit(main())
