"""hop(t, slide, size) in a statement: a key of GROUP BY, for buckets of time that overlap.

    hop(at, INTERVAL 1 MINUTE, INTERVAL 5 MINUTES)    ->   the beginnings of the five buckets that have a tuple
    hop(at, INTERVAL 5 MINUTES, INTERVAL 5 MINUTES)   ->   tumble(at, INTERVAL 5 MINUTES)

No expression computes a `hop`: a tuple has several. So only GROUP BY may have one, as a key of its own. Other clauses
above the groups read that key. `psoup.plan.hop` is the node in the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Protocol

from sqlglot import exp

from psoup.errors import SqlError
from psoup.expressions import supplied_functions
from psoup.expressions.conversion import TIMES, cast, is_null_literal
from psoup.expressions.tree import Call, Expr, Literal, columns_of
from psoup.model import BIGINT, TIMESTAMP
from psoup.plan.hop import HOP, MOST_PANES, hop_call, reads_hop
from psoup.sql.aggregates import ARGUMENT, FILTER, WHERE
from psoup.sql.source import StatementText
from psoup.sql.types import interval

_FORM = "hop(t, INTERVAL '1' MINUTE, INTERVAL '5' MINUTE)"
_GROUPED = f"SELECT {_FORM} AS w, count(*) … GROUP BY w"
_INSTEAD = {
    WHERE: "HAVING has the conditions on buckets; bound the time itself in WHERE, or with BEGIN and END",
    FILTER: "FILTER chooses tuples; HAVING has the conditions on buckets",
    ARGUMENT: "the beginning of the bucket is the same for all tuples of a group: write it without the aggregate",
}
"""The way out, by the part of the statement that refuses a `hop`."""


class HopBinder(Protocol):
    """The members of `psoup.sql.binder.Binder` that this module uses."""

    source: StatementText
    part: str

    def bind(self, node: exp.Expr) -> Expr:
        """Bind an expression."""

    def call(self, name: str, node: exp.Expr, args: list[Expr]) -> Expr:
        """Bind the call of a function. Errors get the place of `node`."""


def is_hop(name: str) -> bool:
    """Whether a function's name means `hop`, and not a function that the operator has supplied."""
    return name == HOP and supplied_functions.known(name) is None


def bind_hop(binder: HopBinder, node: exp.Expr) -> Expr:
    """Bind hop(t, slide, size). Raises SqlError outside of GROUP BY and of the clauses above it."""
    source, nodes = binder.source, list(node.expressions)
    if len(nodes) != 3 or not all(isinstance(length, exp.Interval) for length in nodes[1:]):
        raise source.error("hop takes a time and two INTERVALs, the slide and the size", node, hint=_FORM)
    if binder.part in _INSTEAD:
        shown = "WHERE or ON" if binder.part == WHERE else binder.part
        raise source.unsupported(f"hop in {shown}", node, hint=_INSTEAD[binder.part])
    select = node.parent_select
    if select is None or select.args.get("group") is None:
        raise source.error("hop is a key of GROUP BY, and this SELECT has no GROUP BY", node, hint=_GROUPED)
    slide, size = _length(source, nodes[1], "slide"), _length(source, nodes[2], "size")
    pane = _pane(source, node, slide, size)
    bound = binder.bind(nodes[0])
    if bound.type.kind not in TIMES and not is_null_literal(bound):
        message = f"hop needs a TIMESTAMP or DATE, not {bound.type}; use CAST(... AS TIMESTAMP)"
        raise source.error(message, nodes[0], hint=_FORM, reason="TYPE_MISMATCH")
    if not any(columns_of(bound)):
        raise source.error("hop needs a time of the rows, not a constant", nodes[0], hint=f"{_FORM}, of a column t")
    time = cast(bound, TIMESTAMP)
    if slide == size:
        return binder.call("time_bucket", node, [Literal(BIGINT, 0), Literal(BIGINT, pane), time])
    return hop_call(time, slide, size)


def _length(source: StatementText, node: exp.Expr, name: str) -> int:
    """The microseconds of the slide or the size. Raises SqlError if it has months, or is not above 0."""
    months, micros = interval(source, node)
    if months:
        hint = "write days or weeks; GROUP BY tumble(t, INTERVAL '1' MONTH) has buckets of a month, side by side"
        raise source.unsupported(f"a {name} of hop in months, which differ in length,", node, hint=hint)
    if micros <= 0:
        message = f"the {name} of hop must be longer than nothing"
        raise source.error(message, node, hint=_FORM, reason="INVALID_VALUE")
    return micros


def _pane(source: StatementText, node: exp.Expr, slide: int, size: int) -> int:
    """The length of a pane in microseconds. Raises SqlError if buckets leave gaps, or have too many panes."""
    if size < slide:
        hint = "the slide comes first, then the size: hop(t, slide, size)"
        raise source.error("the size of hop must be at least its slide", node, hint=hint, reason="INVALID_VALUE")
    pane = gcd(slide, size)
    if size // pane > MOST_PANES:
        raise source.error(
            f"this hop has buckets of {size // pane:,} panes, and a bucket may have {MOST_PANES:,}: a pane is as long"
            " as the greatest common divisor of slide and size",
            node,
            hint="take a longer slide that divides the size, or a shorter size",
            reason="INVALID_VALUE",
        )
    return pane


def check_hops(source: StatementText, group: exp.Expr, keys: Sequence[Expr]) -> None:
    """Refuse several keys with a `hop`, and a key that is an expression of a `hop`. Raises SqlError."""
    hops = [key for key in keys if reads_hop(key)]
    if len(hops) > 1:
        hint = "register a query for each, or take tumble(t, …) for one of them"
        raise source.unsupported("more than one hop in GROUP BY", group, hint=hint)
    if hops and not (isinstance(hops[0], Call) and hops[0].name == HOP):
        hint = f"the key is the hop alone: {_GROUPED}; the SELECT list may have expressions of it"
        raise source.unsupported("an expression of hop in GROUP BY", group, hint=hint)


def written_hops(select: exp.Select) -> list[exp.Expr]:
    """The calls of `hop` in a SELECT, as nodes. O(nodes)."""
    return [node for node in select.find_all(exp.Anonymous) if node.name.lower() == HOP]


def not_a_key(source: StatementText, select: exp.Select) -> SqlError:
    """The error for a `hop` of a SELECT that is not a key of GROUP BY."""
    hint = f"write the same hop in GROUP BY: {_GROUPED}"
    return source.error("this hop is not a key of GROUP BY", [*written_hops(select), select][0], hint=hint)
