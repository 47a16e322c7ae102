"""Selection: the tuples of a window that match a clause, read from the Results Structure, or else evaluated.

    window ──> [low, high) of tuple IDs ──> chunk by chunk: covered? ──yes──> stored matches
                                                             └──no──> evaluated, and offered to the writer

Files, in reading order:

    window                  one range of tuple IDs from NOW, as_of and the bounds of a window
    clause_matches          matches of one clause in a range
    many_matches            matches of many clauses in a range, without a step for each
    match_bits_at_ends      matches at the ends of a window as bits, without a list
    column_offers           offers of evaluated results to the writer
    archive_work            the cost of chunks on disk, and its refusal

Invariant: "not covered" is never read as "no match".
Not for: columns and rows. A match is a chunk and offsets.
"""
