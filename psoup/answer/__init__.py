"""Answers: one module for each question that a client can ask, over one published snapshot.

    question ──> invoke | table | ask | check | describe ──> psoup.execution: rows ──> Arrow
                    └── completeness: up to which event, final or not, what came late, what still waits

Files, in reading order:

    question                 the clock, another NOW or window, and the budget of a question
    answer                   the answer of one invocation: completeness, schema and rows
    invoke, invoke_many      one query; many queries, each with an answer of its own
    table, table_rows, table_batches, piece_room    many queries as one table, in pieces that fit the read's budget
    ask, check               a SELECT answered once; a SELECT judged without an answer
    join_ranges              one range of tuple IDs for each source of a join, all at one NOW
    completeness, coverage   completeness of an answer; chunks on disk that are evaluated for a query
    table_content            the first tuples of a table that is made of a stream
    describe, plan_nodes     streams and queries; plans as lists of nodes
    kept_answers             the answers of COMPLETE queries, kept and brought up to date
    eager                    updates of kept answers before a client asks
    automatic                the choice of an amount for AUTO queries, in rounds
    tuples, copies, explain, figures    rooms for further questions

Never here: a change of the snapshot, a wait for the writer, an import of the engine or of admission.
Not for: making rows (`psoup.execution`), limits of callers (the service).
"""
