"""Partners: the rows of joins that also depend on rows without a partner, and of joins of composite inputs.

    Source, Relation ─────> a side: rows by position
    Join, PartnerJoin ────> pieces of positions ──> a side, if another join reads them

    two sides ─ a way of joining ─> pairs ─ other conditions ─> partners ─┬─> LEFT, RIGHT, FULL: pairs, MISSING
                                                                          ├─> SEMI, ANTI, NOT IN: rows of the left
                                                                          └─> ASOF: the closest partner

Files, in reading order:

    composed_rows     the rows of a tree of joins and filters
    composition       its evaluation: each node gives pieces of positions in its leaves
    evaluation        the open leaves, the held bytes and the errors of one evaluation
    input_numbers     the factors of a join, rewritten to places 0 and 1 of its two inputs
    join_inputs       the inputs of a join as sides; rows of a composite input by position
    pairs             the pairs of two inputs that satisfy all conditions
    conditions        conditions over several leaves, tested on rows
    partner_rows      outer joins: rows without a partner are added to the pairs; rows with at most one partner
    existence         SEMI, ANTI: the rows that have a partner, without all pairs if these are many
    key_order         rows of both inputs in the order of keys and bands
    closest           ASOF: the closest partner of each row
    not_in            NOT IN, with its rules for NULL
    filtered_rows     the filter of rows that are not positions in leaves
    small_outer_join  the way of a small LEFT JOIN; composed_messages: the way of other joins of streams
"""
