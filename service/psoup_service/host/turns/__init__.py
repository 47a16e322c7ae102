"""Turns: the order in which tenants, threads and long work get the processor.

    tenants that wait ──fair_turns──> the one with the least time for its weight
    long work ──giving_way, interpreter──> rests while a call of another tenant runs

Question: which work runs next, and when does running work rest?

Files, in reading order:

    fair_turns          the next tenant, by time used and weight
    evaluation_turns    turns in evaluations of maintenance, and their charge
    giving_way          rests of long work for calls of other tenants
    interpreter         short turns at the interpreter, and priorities of threads

Never here: a command, an event, an answer.
Not for: limits on bytes (`psoup_service.host.room`), queues of commands (`psoup_service.host.line`).
"""
