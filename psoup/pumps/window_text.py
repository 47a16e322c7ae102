"""The windows of the sources of a derived stream in words, for explanations. They include windows that CREATE implies.

    calls: read with END (NOW - 10 MINUTES), a tuple is in the state for 10 MINUTES
    bound of the state of ANTI JOIN …: the tuples of calls of 10 MINUTES and the tuples of replies of 10 MINUTES

The part after the comma says how long a tuple is in the state. The last line is the bound of the state. Beside a stream
in event time, a table in system time has a line of its own. It says when instants are closed.
"""

from __future__ import annotations

from collections.abc import Iterator

from psoup.derivation import Derivation
from psoup.errors import SqlError
from psoup.plan.canonical import describe_duration
from psoup.published.snapshot import Snapshot
from psoup.pumps.form import Form, form_of


def window_lines(snapshot: Snapshot, derived: Derivation) -> tuple[str, ...]:
    """The lines about instants and sources: those read late, or with tuples in a state. The last line bounds the state.

    () if the SELECT cannot be bound.
    """
    try:
        form = form_of(derived, snapshot.by_id)
    except SqlError:
        return ()
    return (*_closing_lines(form), *_source_lines(form), _state_line(form))


def _closing_lines(form: Form) -> Iterator[str]:
    """The line about closed instants, if a table in system time stands beside a stream in event time."""
    timed = dict.fromkeys([spec.name for spec in form.specs if spec.event_time])
    timeless = dict.fromkeys([spec.name for spec in form.specs if not spec.event_time])
    if timed and timeless:
        tables = f"{' and '.join(timeless)} {'is' if len(timeless) == 1 else 'are'}"
        marks = "watermark of {} has" if len(timed) == 1 else "watermarks of {} have"
        passed = f"the {marks.format(' and '.join(timed))} passed it"
        yield f"an instant is closed once {passed}, and the clock has reached it, as {tables} in system time"


def _source_lines(form: Form) -> Iterator[str]:
    keeps = form.derived.every is None and form.binding is not None
    for source, late, width in zip(form.sources, form.lates, form.widths, strict=True):
        parts = [f"read with END (NOW - {describe_duration(late)})"] if late else []
        if keeps and source.spec.table is None:
            stay = "for ever" if width is None else f"for {describe_duration(width)}"
            parts.append(f"a tuple is in the state {stay}")
        if parts:
            yield f"{source.spec.name}: {', '.join(parts)}"


def _state_line(form: Form) -> str:
    """The bound of the state of a pump, in words. With EVERY it may be the latest answer."""
    edge = form.state
    return f"bound of the state of {edge.label}: {edge.bound.text}" if edge.bound.parts else edge.bound.text
