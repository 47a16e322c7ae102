"""Background work that makes folds and packs before an invocation needs them, for streams with an archive or history.

    registered aggregates ──> attempt, within a budget, noted beforehand ──> fold, stored with the chunk
                                └──too much──> refusal, remembered and shown by EXPLAIN

A fold has the states of one clause over some chunks. A pack has the states of many clauses.

Files, in reading order:

    attempts       budgets, turns of tenants, notes and refusals of attempts
    folds_ahead    folds of single queries
    packs_ahead    packs of queries that were invoked as a table

Invariant: no answer depends on this work. If the process ended twice during the same fold, the next start skips it.
Not for: folds that readers make and keep (`aggregate.window_folds`).
"""
