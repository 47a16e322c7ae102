"""`make reproduction`: docs/reproduction.md and its pictures, from the committed run in benchmarks/reproduce/run.json.

--run build/reproduce.json    first make this run the committed one

Nothing is measured here, so the same run gives the same page. Pictures of experiments that the run lacks are removed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from benchmarks.reproduce.catalogue import CATALOGUE, left_out
from benchmarks.reproduce.experiment import table
from benchmarks.reproduce.results import Results, has_picture
from benchmarks.tool.run import Size

RUN = Path(__file__).with_name("run.json")
DOCS = Path(__file__).parents[2] / "docs"
PICTURES = "pictures"
"""The folder of the pictures, seen from the page."""

_INTRODUCTION = """\
# The papers' experiments, run again

PSoup stands on six papers. This page has their experiments, each with the published result beside the result of PSoup.
Shapes are compared, never absolute figures, because the machines are twenty years apart: which system wins, by about
what factor, where lines cross, what is flat. Values are compared where a published figure follows from a formula.

- *agrees*: all shapes are as published.
- *differs*: a shape is not as published, in a stated way. The figure of the stated difference is tested, too.
- *waits*: a series needs a feature that PSoup does not have yet.
- *failed*: a shape is neither as published nor as stated. On a busy machine this happens to timed shapes.

The number after a shape is what the run measured. Mostly it is a ratio: one series by another, a point by the one
before it, or the greatest figure by the least. If the shape is about a place or a value, the number is that place or
value. *none*: the lines do not cross.

What PSoup does not do is emulated in `benchmarks/reproduce/`. Each series is marked as the product's, an emulator's, a
formula's, or by hand. `make reproduce` runs all experiments; `make reproduction` makes this page from the run in
`benchmarks/reproduce/run.json`."""
_FORMS = {size.value: "" if size is Size.WHOLE else f' ARGS="--{size.value}"' for size in Size}
"""The arguments of `make reproduce` for each form of a run."""


def page(results: Results) -> Iterator[str]:
    """The lines of the page."""
    missing = left_out({experiment.number for experiment in results.experiments})
    counts = Counter(experiment.state.value for experiment in results.experiments)
    counts["left out"] = len(missing)
    states = ", ".join(f"{state} {count}" for state, count in sorted(counts.items()))
    facts = {
        "form": f"{results.size}: `make reproduce{_FORMS[results.size]}`",
        "machine": results.description,
    }
    yield from (_INTRODUCTION, "")
    yield from table(["the run", ""], facts.items())
    yield from (f"Of the {len(CATALOGUE)} experiments: {states}.", "")
    yield from results.table(missing)
    yield from results.sections(PICTURES)


def write(results: Results, docs: Path) -> None:
    """Write the page and its pictures to a folder."""
    from benchmarks.reproduce.pictures import draw

    drawn = [experiment for experiment in results.experiments if has_picture(experiment)]
    for old in (docs / PICTURES).glob("R[0-9][0-9].svg"):
        if old.stem not in {experiment.number for experiment in drawn}:
            old.unlink()
    for experiment in drawn:
        draw(experiment, docs / PICTURES, results.note, ["svg"])
    (docs / "reproduction.md").write_text("\n".join(page(results)).rstrip() + "\n")


def main() -> int:
    """Write the page; returns 0, or exits with 2 if the run cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reproduce.reproduction", description="Write the page.")
    parser.add_argument("--run", type=Path, metavar="FILE", help="commit this run: build/reproduce.json")
    options = parser.parse_args()
    if not find_spec("matplotlib"):
        parser.error("pictures need matplotlib, which is not installed; install it with: make setup")
    source = options.run or RUN
    try:
        results = Results.read(source)
    except (OSError, ValueError, KeyError, TypeError) as error:
        parser.error(
            f"{source} is not the file of a run ({type(error).__name__}: {error}); make one with: make reproduce"
        )
    if options.run:
        shutil.copyfile(source, RUN)
    write(results, DOCS)
    print(f"{len(results.experiments)} of {len(CATALOGUE)} experiments are in {DOCS / 'reproduction.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
