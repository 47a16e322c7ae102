"""The streams that texts of the log name: a text is bound to the streams of its names at the time of its event.

2   trades (…)      the definitions so far, by ID; a name may have been given to another stream since
5   quotes (…)      an event says by ID which streams its texts read: one, or those of a join
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from psoup.expressions.supplied_functions import signatures
from psoup.model import StreamSpec
from psoup.plan.nodes import Source
from psoup.plan.standing_query import StandingQuery
from psoup.sql import PreparedStatement, prepare
from psoup.sql.templates.block import BoundBlock
from psoup.sql.templates.forms import Forms
from psoup.sql.templates.ladder import bind_text

StreamIds = tuple[int, ...]
_TEMPLATES = 256
"""The most templates that are remembered. A full table is emptied."""


class LoggedStreams:
    """The streams that the rows read so far have created."""

    def __init__(self) -> None:
        self.specs: dict[int, StreamSpec] = {}
        """The definitions by stream ID, also of dropped streams."""
        self._forms: dict[tuple[StreamIds, tuple[str, ...]], Forms] = {}
        self._templates: dict[tuple[StreamIds, str, tuple[str, ...]], tuple[list[StreamSpec], PreparedStatement]] = {}
        """The templates of blocks, with the definitions for which they were prepared."""

    def bind(self, streams: StreamIds, text: str) -> StandingQuery:
        """The query of a text over some streams, with the supplied functions that are declared."""
        return bind_text(self._forms.setdefault((streams, signatures()), Forms()), text, self.only(streams))

    def prepared(self, streams: StreamIds, template: str) -> PreparedStatement:
        """The template of a block over some streams, with the supplied functions that are declared. O(1) if it was
        prepared before. Raises SqlError."""
        key, specs = (streams, template, signatures()), [self.specs[stream] for stream in streams]
        before = self._templates.get(key)
        if before is not None and all(map(operator.is_, before[0], specs)):
            return before[1]
        if len(self._templates) >= _TEMPLATES:
            self._templates.clear()
        made = prepare(template, self.only(streams))
        self._templates[key] = specs, made
        return made

    def only(self, streams: StreamIds) -> Callable[[str], StreamSpec | None]:
        """A lookup by name that knows only these streams."""
        if len(streams) == 1:
            spec = self.specs[streams[0]]
            return lambda name: spec if name.lower() == spec.name.lower() else None
        specs = {self.specs[stream].name.lower(): self.specs[stream] for stream in streams}
        return lambda name: specs.get(name.lower())

    def of_sources(self, streams: StreamIds, sources: Sequence[Source]) -> StreamIds:
        """The stream of each source of a query, which are among `streams`."""
        if len(streams) == 1:
            return streams * len(sources)
        by_name = {self.specs[stream].name.lower(): stream for stream in streams}
        return tuple([by_name[source.spec.name.lower()] for source in sources])

    def of_joins(self, streams: StreamIds, queries: Sequence[StandingQuery]) -> tuple[list[int], list[StreamIds]]:
        """The first stream of each query of a block, and the streams of its sides. A template has one entry for all its
        queries.
        """
        if isinstance(queries, BoundBlock):
            of_all = self.of_sources(streams, queries.template.sources)
            return [of_all[0]], [of_all]
        of_each = [self.of_sources(streams, query.sources) for query in queries]
        of_sides = [ids if query.sides else () for ids, query in zip(of_each, queries, strict=True)]
        return [ids[0] for ids in of_each], of_sides
