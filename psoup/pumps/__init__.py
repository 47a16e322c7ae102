"""Pumps: the steps that turn new tuples of sources into rows of a derived stream.

    snapshot ── closed instants ──> a step: new tuples of the sources, at most 8,192 ──> PushDerived ──> sequencer
                     ^                                                                        │
                     └────── the stream's watermark: the instant up to which it is derived <──┘

Question: which rows does the next push of a derived stream have?

Files, in reading order:

    instants     the instants at which no tuple of a source can come any more
    form         a derivation, bound to the present streams, as a plan that shows tuple IDs and times
    rows         the rows that enter the answer after one instant, up to another
    pump         the position of one stream, and its next step
    pumps        all pumps of a service or of a process, and which of them goes next

Never here: a thread, a clock, a state that a restart would have to restore. The rows of a step depend on the log alone.
"""

from psoup.pumps.pump import Due, Pump
from psoup.pumps.pumps import NO_ROOM, Pumps, advance

__all__ = ["NO_ROOM", "Due", "Pump", "Pumps", "advance"]
