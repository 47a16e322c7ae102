"""Names: clauses, tags and queries under the numbers that stand for them.

    clause ──clause_names──> 128 bits ──table──> slot
    tag    ──tag_runs──────> number
    pairs of (slot, offset) ──tuple_queries──> query IDs of each tuple

Files, in reading order:

    clause_names     names of 128 bits, and a hash table from a name to a slot
    tag_runs         sorted runs of (name, number): searched and merged
    tuple_queries    matches laid out by tuple, under the IDs of their queries

Invariant: a name is compared in full; a hash only finds its place.
Never here: the text of a name.
Not for: keys of joins and groups (`psoup.kernels.join`, `psoup.kernels.fold`).
"""
