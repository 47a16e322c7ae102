"""Aggregates: what becomes of the rows of a group, as states that are folded part by part, combined, and finished.

    rows ─ keys ─> numbers of groups ─ fold ─> states, part by part ─ combine ─> states ─ finish ─> a column each

`keys` numbers groups; `measures` is the list of aggregate functions and what each keeps; the other modules are these
states, by kind. Nothing here knows where rows come from, or which groups an answer shows.
"""
