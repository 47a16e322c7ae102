"""Copies at clients: the rows that a copy lacks, and the rows that leave it, since a state that its token describes.

    window now      [---------------------)
    client holds  [-----------)                   leaves: the left part; comes: the right part
    join: the same in a box, an interval for each source

Files, in reading order:

    id_intervals, id_boxes     sets of tuple IDs of one source; boxes of tuple IDs of a join
    range_plans                plans whose copies need only new rows
    rows_since, join_since     the rows that a copy lacks: of one source, and of a join
    answer_again               an answer that is compared: groups, DISTINCT, the first rows of an order
    expiry                     rows that leave as NOW goes on while no tuple comes, for a client without a connection
    watched_clauses            clauses of watched queries that new tuples have matched

Never here: anything kept for a client. The token holds all that is known of its copy.
Not for: the wire format of changes (the service's `sync`).
"""
