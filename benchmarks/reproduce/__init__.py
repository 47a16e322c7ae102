"""Experiments of the papers, run again, beside what was published.

    python -m benchmarks.reproduce              all of them; --list, --only R04, --tiny; build/reproduce.md and .json
    python -m benchmarks.reproduce.reproduction docs/reproduction.md and its pictures, from the committed run.json

    psoup_2002, cacq_2002, stream_2003, …       a folder for each paper, a module for each figure or group of figures
    emulators                                   other systems of the papers, by paper
    experiment, shapes, results, pictures, …    the form of an experiment, and its files

Shapes are compared, never absolute figures: which series is below which, what grows how. Where a published figure
follows from a formula, values are compared. A shape agrees, differs in a stated way, or has failed
(`benchmarks.reproduce.shapes`). What PSoup does not do is emulated, and not imported by the product: an eddy that
routes tuples through filters, drop boxes, queues between steps.
"""
