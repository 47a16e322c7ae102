"""The windows of the sources of a derived stream in words, for explanations. They include windows that CREATE implies.

    calls: read with END (NOW - 10 MINUTES), a tuple is in the state for 10 MINUTES

The part after the comma says how long a tuple is in the state.
"""

from __future__ import annotations

from collections.abc import Iterator

from psoup.derivation import Derivation, StreamOperator
from psoup.errors import SqlError
from psoup.model import StreamSpec
from psoup.plan.canonical import describe_duration
from psoup.plan.derived_shape import shape_of
from psoup.published.snapshot import Snapshot
from psoup.sql import bound_derivation, stays


def window_lines(snapshot: Snapshot, derived: Derivation) -> tuple[str, ...]:
    """A line for each source that is read late, or whose tuples are in a state. () if the SELECT cannot be bound."""
    specs = {each.name.lower(): snapshot.by_id[each.stream_id].spec for each in derived.sources}
    try:
        return tuple(_lines(derived, specs))
    except SqlError:
        return ()


def _lines(derived: Derivation, specs: dict[str, StreamSpec]) -> Iterator[str]:
    query = bound_derivation(derived, lambda name: specs.get(name.lower()))
    shape, leaves = shape_of(query.plan), derived.operator is StreamOperator.DSTREAM
    operator = derived.operator if derived.every is None else StreamOperator.DSTREAM
    lates, widths, _ = stays(query, operator)
    keeps = derived.every is None and (leaves or (shape is not None and shape.operator is not None))
    for source, late, width in zip(query.sources, lates, widths, strict=True):
        parts = [f"read with END (NOW - {describe_duration(late)})"] if late else []
        if keeps and source.spec.table is None:
            stay = "for ever" if width is None else f"for {describe_duration(width)}"
            parts.append(f"a tuple is in the state {stay}")
        if parts:
            yield f"{source.spec.name}: {', '.join(parts)}"
