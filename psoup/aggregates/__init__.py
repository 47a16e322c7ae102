"""Aggregates over groups of rows. A fold adds the rows to states, part by part; states are combined, then finished.

    rows ─ keys ─> numbers of groups ─ fold ─> states, part by part ─ combine ─> states ─ finish ─> a column each

The module `keys` gives each group a number. `measures` lists the aggregate functions and the state of each. Other
modules have the states, by kind, and the folds that are kept for later invocations. This package does not know where
rows come from, or which groups an answer shows.
"""
