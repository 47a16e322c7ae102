"""Copies at clients: the rows to add to a copy, and the rows to remove, since the state in its token.

    window now      [---------------------)
    client holds  [-----------)                   leaves: the left part; comes: the right part
    join: the same in a box, an interval for each source

Files, in reading order:

    id_intervals, id_boxes     sets of tuple IDs of one source; boxes of tuple IDs of a join
    range_plans                plans whose copies need only new rows
    rows_since, join_since     the rows that a copy lacks: of one source, and of a join
    answer_again               comparison with the former answer: groups, DISTINCT, ORDER BY with LIMIT
    expiry                     rows that leave as NOW advances, for a client without a connection
    watched_clauses            clauses of watched queries that new tuples have matched

Never here: state of a client. The token of the client describes its copy completely.
Not for: the wire format of changes (the service's `sync`).
"""
