"""prepare: what is accepted, stamped so that applying it is a function of the event alone. See `admission`."""

from psoup.admission.admission import Admission

__all__ = ["Admission"]
