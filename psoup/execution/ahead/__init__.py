"""Precomputation: folds and packs of chunks that are about to leave the memory, or were put on disk.

    registered aggregates ──> attempt, within a budget, noted beforehand ──> fold beside the chunk
                                └──too much──> refusal, remembered and shown by EXPLAIN

Files, in reading order:

    attempts       budgets, turns of tenants, notes and refusals of attempts
    folds_ahead    folds of single queries
    packs_ahead    packs of queries that were invoked as a table

Invariant: no answer depends on this work. A fold that ended the process twice is left out by the next start.
Not for: folds that readers leave (`aggregate.window_folds`).
"""
