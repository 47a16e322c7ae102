"""Experiments of the papers, run again: one module for each, beside what was published.

    python -m benchmarks.reproduce              all of them; --only figure8, --tiny; build/reproduce.md and .json

Compared are shapes, never absolute figures: which series is below which, what grows how. A shape that does not hold
says why. What PSoup does not do (an eddy that routes tuples through filters, answers without anything kept) is
emulated here, and not imported by the product.
"""
