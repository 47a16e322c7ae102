"""Types of the arguments of `Admission.prepare`: earlier work on a command, and the caller's look at its event."""

from __future__ import annotations

from collections.abc import Callable

from psoup.admission.queries.bind_steps import Binding
from psoup.admission.rows.pushes import Foreseen
from psoup.events.events import Event

Ready = Callable[[Event], object]
"""A function that is called with an event before admission adopts it."""

Before = Binding | Foreseen | None
"""The result of work on a command before `prepare`: a binding, a foreseen event, or None."""
