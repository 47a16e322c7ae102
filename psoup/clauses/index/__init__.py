"""The predicate index: from a value to the clauses that it can satisfy, without testing each clause.

    clauses ──> clause_rows ──> bounds: sorted constants of each attribute
                                  └──> posting_lists: cells between constants ──> clauses

Files, in reading order:

    predicate_index    the factors of many clauses as arrays, and the parts of an index
    clause_rows        clauses as lists of lists, before they have bounds
    bounds             the sorted constants of one attribute, each once
    posting_lists      the clauses of each cell
    delta              the small index of recent clauses: a registration costs its own size
    combine            the merge of small indexes into a large one, without a loop over clauses

This package knows no tuples and no results, and never changes an array that readers have. Slots and names of clauses
are in `psoup.clauses`.
"""
