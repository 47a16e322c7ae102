"""Copies of answers: rows kept by a client, brought up to date by changes alone.

    token of the copy ──sync, or watch──> changes ──replies──> rows that stay, leave and come ──> new copy, new token

Question: which rows does the answer have now, given the rows that the client holds?

Files, in reading order:

    answer_copy     a copy: its rows, its token, its age
    watch           several copies, each changed as soon as its answer changes
    replies         replies with changes, checked before use
    held_rows       rows by their tuple IDs: which stay, and their order
    places          rows without tuple IDs, by position in the answer
    json_columns    rows that come as JSON
    moments         the service's NOW while the service is away

Invariant: a change is applied as a whole, or the copy stays as it was.
Never here: a file or a database (`psoup_recharge` keeps copies there).
Not for: a single answer (`psoup_client.answer`).
"""
