"""Pumps: the steps that turn new tuples of sources into rows of a derived stream.

    snapshot ── closed instants ──> a step: new tuples of the sources, at most 8,192 ──> PushDerived ──> sequencer
                     ^                                                                        │
                     └────── the stream's watermark: the instant up to which it is derived <──┘

Question: which rows does the next push of a derived stream have?

Files, in reading order:

    instants     the instants at which no tuple of a source can come any more
    form         a derivation, bound to the present streams, as plans that show tuple IDs and times
    part         an input of an operator with state, as a plan
    operators    the operator of a derivation; partner_parts has the inputs of EXISTS and LEFT JOIN, plain_rows more
                 operators
    extents      the tuples of a step
    rows         the rows that enter the answer after one instant, up to another
    spans        the same for an input of an operator with state: from when to when each row is in the input's answer
    above        HAVING and the columns of the SELECT, over the rows of an operator
    kept_state   the state of a pump: its steps, and how it is rebuilt after a restart
    equal_plans  the steps that streams with equal plans share
    plan_bytes   the bytes that equal streams keep in memory
    plan_member  the form and the state of one stream, which equal streams share
    push_parts   a large push, in parts of whole instants
    pump         the position of one stream, and its next step
    tick_answers, ticks    with EVERY: the answer at an instant; the pump that compares successive answers
    room         the memory that rows and states of derived streams may take
    waits        the streams that have waited for room for too long
    progress, status    the counts of a pump, and the status of a derived stream
    status_text, window_text    the status of a stream, and the windows of its sources, in words
    pumps        all pumps of a service or of a process, and which of them goes next

Never here: a thread, a clock, a state that cannot be rebuilt from the tuples of the sources. The rows of a step depend
on the log alone.
"""

from psoup.pumps.pump import Due, Pump
from psoup.pumps.pumps import Pumps, advance, mark_of
from psoup.pumps.room import NO_ROOM

__all__ = ["NO_ROOM", "Due", "Pump", "Pumps", "advance", "mark_of"]
