"""`python -m benchmarks.reproduce`: run the papers' experiments, print them, write build/reproduce.md and .json.

--only figure8    the experiments whose names begin so
--quick, --tiny   fewer and smaller points; --tiny: does it work?

Exits with 1 if a shape does not hold and nothing says why.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.reproduce.cacq_adapt import cacq_adapt
from benchmarks.reproduce.cacq_routing import cacq_routing
from benchmarks.reproduce.experiment import Experiment
from benchmarks.reproduce.figure8 import figure8
from benchmarks.reproduce.figure11 import figure11
from benchmarks.tool.machine import machine
from benchmarks.tool.report import head_line
from benchmarks.tool.run import Run, Size

EXPERIMENTS: dict[str, Callable[[Run], Experiment]] = {
    "figure8": figure8,
    "figure11": figure11,
    "cacq_routing": cacq_routing,
    "cacq_adapt": cacq_adapt,
}


def main() -> int:
    """Run them; returns 1 if a shape is missing without a reason."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reproduce", description="Run the papers' experiments.")
    parser.add_argument("--only", default="", metavar="NAME", help="experiments whose names begin with NAME")
    parser.add_argument("--quick", action="store_true", help="fewer and smaller points")
    parser.add_argument("--tiny", action="store_true", help="too small for a shape: whether they work")
    parser.add_argument(
        "--out", type=Path, default=Path("build/reproduce.md"), metavar="FILE", help="and beside it .json"
    )
    options = parser.parse_args()
    run = Run(Size.TINY if options.tiny else Size.QUICK if options.quick else Size.WHOLE)
    here = machine()
    results = [make(run) for name, make in EXPERIMENTS.items() if name.startswith(options.only)]
    text = "\n".join([head_line(here), "", *(line for experiment in results for line in experiment.lines())])
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(text)
    options.out.with_suffix(".json").write_text(json.dumps([experiment.to_dict() for experiment in results], indent=1))
    print(text)
    return int(any(experiment.unexplained for experiment in results) and not options.tiny)


if __name__ == "__main__":
    sys.exit(main())
