"""Eager answers: kept answers of COMPLETE queries that are updated after new tuples, before a client asks for them.

    publication ──> streams with an event ──> their eager queries are due ──> updates, in turns of the tenants
    invocation  ──> the query was asked;  the kept answer has nothing left to do: the same bytes are sent

Files, in reading order:

    eager_index      the eager queries as columns: which are due, and whose turn it is
    eager_updates    the updates, each within a budget

Invariant: no answer depends on this work. An update is an invocation without a client (`answer.kept_answers`).
Not for: threads and pauses, which the host has (`psoup_service.chores.eager_answers`).
"""
