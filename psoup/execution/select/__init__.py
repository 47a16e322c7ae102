"""Selection finds the tuples of a window that match a clause: in the Results Structure, or by evaluating the clause.

    window ──> [low, high) of tuple IDs ──> chunk by chunk: covered? ──yes──> stored matches
                                                             └──no──> evaluated, and offered to the writer

Files, in reading order:

    window                  one range of tuple IDs from NOW, as_of and the bounds of a window
    clause_matches          matches of one clause in a range
    many_matches            matches of many clauses in a range, without a step of Python for each clause
    match_forms             the forms of matches in a chunk
    match_bits_at_ends      matches at the ends of a window as a bitmap, without a list of offsets
    version_entries         entries of a table among matches
    history                 versions of a table that HISTORY has left
    column_offers           offers of evaluated results to the writer
    archive_work            the expected cost of evaluating chunks on disk, and the refusal if it is too much

Invariant: "not covered" is never read as "no match".
Not for: columns and rows. A match is a chunk and offsets.
"""
