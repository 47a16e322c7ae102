"""The reasons for or against a tuple in an answer: each condition with its verdict, in words and in notebooks.

no   absence    ANTI JOIN o.item = s.item    (prevented by s 0)
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from psoup_client import html
from psoup_proto.v1 import matching_pb2, queries_pb2


@dataclass(frozen=True, slots=True)
class WhyStep(html.Facts):
    """A condition on a tuple: `text` in SQL, the `values` that it reads, and whether the tuple `passed` it.

    `kind`: "factor" (a part of WHERE), "window", "retention", or "arrival" (whether a push takes the row). `values`:
    SQL constants by the text of their expression. A computed expression is followed by the columns that it reads.

    For a table: "version" (whether the version holds at the time of the answer, and is not a deletion).

    For a query over several sources: "partner" (a join), "absence" (a join that rows without a partner pass), or
    "removal" (such a join, for a tuple that takes rows away). `partners`: the IDs of the partners, by the names of
    their sources; None for a row of a subselect.
    """

    kind: str
    text: str
    passed: bool
    values: dict[str, str]
    partners: dict[str, int | None] = field(default_factory=dict)

    def __str__(self) -> str:
        shown = ", ".join(f"{text} is {value}" for text, value in self._shown().items()) or self._found
        return f"{'yes' if self.passed else 'no '}  {self._part:9}  {self.text}{f'    ({shown})' if shown else ''}"

    @property
    def _part(self) -> str:
        """The clause of the statement that the condition belongs to, such as WHERE."""
        return "WHERE" if self.kind == "factor" else self.kind

    @property
    def _found(self) -> str:
        """The partners in words. Empty for a condition on one source."""
        if self.kind not in _FOUND:
            return ""
        some, none = _FOUND[self.kind]
        partners = self.partners.items()
        shown = ", ".join(f"a row of {name}" if number is None else f"{name} {number}" for name, number in partners)
        return f"{some} {shown}" if shown else none

    def _shown(self) -> dict[str, str]:
        """The values of the condition, written without types. TRUE or FALSE of the condition itself is left out."""
        said = {self.text: "TRUE" if self.passed else "FALSE"}.items()
        return {text: _plain(value) for text, value in self.values.items() if (text, value) not in said}


@dataclass(frozen=True, slots=True)
class Why:
    """All conditions between a tuple and the answer of a query, in order. Printed, a condition is a line."""

    steps: list[WhyStep]
    sequence: int

    @property
    def kept_out(self) -> WhyStep | None:
        """The first condition that the tuple does not meet; None if it meets all."""
        return next((step for step in self.steps if not step.passed), None)

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))

    def __repr__(self) -> str:
        return f"<Why: {self._verdict()}>"

    def _verdict(self) -> str:
        kept_out = self.kept_out
        return "All conditions are met" if kept_out is None else f"Kept out by {kept_out.text}"

    def _repr_html_(self) -> str:
        """Show the conditions in a notebook, one in each row."""
        rows = [
            ("✓" if step.passed else "✗", step._part, step.text, step._shown() or step._found) for step in self.steps
        ]
        shown = html.counted_table(("met", "kind", "condition", "values"), rows, len(rows), "condition")
        return shown + html.paragraph(self._verdict())


_FOUND = {
    "partner": ("with", "no partner"),
    "absence": ("prevented by", "no partner"),
    "removal": ("takes away the row of", "takes no row away"),
}
"""The words before the partners of a condition, and the words for none, by the kind of the condition."""

_TYPED = re.compile(r"CAST\((\S+) AS [^']+\)|(?:TIMESTAMP|DATE) '([^']+)'|(-?[0-9.]+)e0")
"""Pattern of an SQL constant with its type. A group matches the value alone."""


def _plain(value: str) -> str:
    """Remove the type from a constant: 99.50 for CAST(99.50 AS DECIMAL(9,2)). The same holds for times and doubles."""
    literal = _TYPED.fullmatch(value)
    return value if literal is None else next(group for group in literal.groups() if group is not None)


def step_of(step: matching_pb2.WhyStep) -> WhyStep:
    """Convert the message on the wire."""
    kind = matching_pb2.WhyKind.Name(step.kind).removeprefix("WHY_KIND_").lower()
    partners = {each.source: int(each.tuple_id) if each.HasField("tuple_id") else None for each in step.partners}
    return WhyStep(kind, step.text, step.passed, {value.text: value.value for value in step.values}, partners)


def stream_of(query: queries_pb2.Query, source: str) -> str:
    """The stream of a query's source with a name. The first stream if no source has it: the service then says so."""
    streams = {each.stream.lower(): each.stream for each in query.sources}
    aliases = {each.alias.lower(): each.stream for each in query.sources}
    return (streams | aliases).get(source.lower(), query.stream)
