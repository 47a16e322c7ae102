"""Experiments of the papers, run again: one module for each figure or group of figures, beside what was published.

    python -m benchmarks.reproduce              all of them; --list, --only R04, --tiny; build/reproduce.md and .json
    python -m benchmarks.reproduce.reproduction docs/reproduction.md and its pictures, from the committed run.json

Shapes are compared, never absolute figures: which series is below which, what grows how. Where a published figure
follows from a formula, values are compared. A shape agrees, differs in a stated way, or has failed
(`benchmarks.reproduce.shapes`). What PSoup does not do is emulated here, and not imported by the product: an eddy that
routes tuples through filters, drop boxes, queues between steps.
"""
