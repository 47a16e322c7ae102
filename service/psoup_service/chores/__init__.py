"""Chores: the regular work of a service beside its calls.

    supervisor ──> regular ─┬─> expiry            tuples after a start, queries without a caller
                            ├─> row expiry        rows of tables whose time has come
                            ├─> folding           folds made before a reader asks
                            ├─> eager answers     kept answers of eager queries, updated before a reader asks
                            └─> arrival_watch     queries that take much of the writer's time

Files, in reading order:

    regular          the list of this work, each part a task
    supervisor       tasks that end by an error are counted and started again
    expiry           the wait of tuples after a start; the end of queries that were not asked for
    row_expiry       a look for expired rows of tables every second
    fold_ahead       a look for new chunks every few seconds, on the threads of jobs
    eager_answers    updates after publications, on a thread of their own
    standby          at a standby: a look for the next events of the copy every half second
    writer_address   where clients write, noted for the standbys that follow the copy
    promotion        a standby becomes the service that writes
    arrival_watch    a look at the writer's time every half minute

Never here: work on the thread of the writer, an answer for a client.
Not for: upkeep of chunks (`psoup.engine.maintenance`).
"""
