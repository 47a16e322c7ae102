"""Joins: the tuples of several sides that satisfy all factors between them, found when they are asked for.

    sides ──keys──> int64 keys, rows that can join ──thinned──> fewer rows ──builds──> orders of the rows by key
                                                                                            │
    rows of the first source ──pieces──> eddy: a step for each source, as the policy says ──┘──> sorted ──rest──> pieces

`psoup.joins.joined` is the way in. A side is what an ordinary standing selection gives: nothing here knows clauses,
windows or chunks.
"""
