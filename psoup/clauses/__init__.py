"""The Query SteM: the standing clauses of a stream as a predicate index; equal clauses are stored once.

    clauses ──> table: one slot for equal clauses ──> query_stem ─┬─> index: large parts, merged
                                                                  └─> index: a small part for recent clauses
    new tuples ──> sides: the parts that a probe reads

Files, in reading order:

    query_stem                     the clauses of one stream, ready to meet new tuples
    table, names                   slots of clauses; 128-bit names of equal clauses
    attributes                     columns and expressions by small numbers
    index                          the room of the predicate index
    factor_table, block, column_block    bulk registration: many clauses become one part of the index
    text_search                    clauses with text patterns: one automaton finds all patterns
    cheap_clauses, error_clauses   clauses without slow factors; clauses with errors as true
    quarantine                     clauses that were taken out of the index, with the reasons
    sides, scratch, costs          the input of a probe, its memory, its costs by clause
    describe                       a clause in words, all clauses as a table

This package never keeps tuples, results or SQL text. The evaluation of clauses over tuples is in `psoup.matching`.
"""
