"""Prepare: accepts commands and stamps their events, so that applying an event depends on nothing else. See
`admission`."""

from psoup.admission.admission import Admission

__all__ = ["Admission"]
