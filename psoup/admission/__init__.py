"""Admission, the step *prepare*: it accepts or refuses commands, and makes their events.

An event has all that the engine needs to apply it: sequence, time and IDs. Begin with `psoup.admission.admission`.
"""

from psoup.admission.admission import Admission

__all__ = ["Admission"]
