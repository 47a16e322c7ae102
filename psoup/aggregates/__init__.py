"""Aggregates over groups of rows: states that are folded part by part, combined, and finished.

    rows ─ keys ─> numbers of groups ─ fold ─> states, part by part ─ combine ─> states ─ finish ─> a column each

`keys` numbers groups. `measures` lists the aggregate functions and the state of each. The other modules are these
states, by kind. Nothing here knows where rows come from, or which groups an answer shows.
"""
