"""Functions with special syntax: CASE, LIKE, ~, EXTRACT, TRIM, SUBSTRING, POSITION, AT TIME ZONE, OVER.

extract(year FROM t)   ->   extract('year', t)          trim(LEADING 'x' FROM t)   ->   ltrim(t, 'x')
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol

from sqlglot import exp

from psoup.expressions.civil import PART_ALIASES
from psoup.expressions.conversion import is_null_literal, is_text_literal
from psoup.expressions.tree import Expr, Literal
from psoup.model import BIGINT, TEXT, TIMESTAMP
from psoup.sql.over import window_function
from psoup.sql.refusals import PREDICATES
from psoup.sql.source import StatementText
from psoup.sql.spans import PARTS, Operand, Span, counted, refused
from psoup.sql.types import interval


class FormBinder(Protocol):
    """The members of `psoup.sql.binder.Binder` that this module uses."""

    source: StatementText

    def bind(self, node: exp.Expr) -> Expr:
        """Bind an expression."""

    def operand_of(self, node: exp.Expr) -> Operand:
        """Bind an expression that may be an INTERVAL."""

    def call(self, name: str, node: exp.Expr, args: list[Expr]) -> Expr:
        """Bind the call of a function. Errors get the place of `node`."""


def _case(binder: FormBinder, node: exp.Expr) -> Expr:
    subject = None if node.this is None else binder.bind(node.this)
    args: list[Expr] = []
    for branch in node.args["ifs"]:
        test = binder.bind(branch.this)
        args.append(test if subject is None else binder.call("eq", branch, [subject, test]))
        args.append(binder.bind(branch.args["true"]))
    default = node.args.get("default")
    args.append(Literal(BIGINT, None) if default is None else binder.bind(default))
    return binder.call("case", node, args)


def refuse_bare(source: StatementText, *operands: exp.Expr | None) -> None:
    """Refuse a condition without parentheses as an operand, as in `a = b = c` or `a < b IS NULL`.

    DuckDB refuses them too, or gives them another meaning than sqlglot.
    """
    for operand in operands:
        if isinstance(operand, PREDICATES):
            raise source.error(
                "it is not clear what belongs together here", operand, hint="put parentheses around a condition"
            )


def _like(binder: FormBinder, node: exp.Expr) -> Expr:
    refuse_bare(binder.source, node.this, node.expression)
    like = _like_call(binder, node, node, [node.this, node.expression])
    return binder.call("not", node, [like]) if node.args.get("negate") else like


def _like_call(binder: FormBinder, like: exp.Expr, node: exp.Expr, parts: list[exp.Expr]) -> Expr:
    """Bind LIKE or ILIKE. ILIKE becomes LIKE over operands in lower case."""
    bound = [binder.bind(part) for part in parts]
    if isinstance(like, exp.ILike):
        bound = [binder.call("lower", node, [part]) for part in bound]
    return binder.call("like", node, bound)


def _regex(binder: FormBinder, node: exp.Expr) -> Expr:
    refuse_bare(binder.source, node.this, node.expression)
    name = "regexp_full_match" if isinstance(node, exp.SimilarTo) else "regexp_matches"
    options = [Literal(TEXT, "i")] if isinstance(node, exp.RegexpILike) else []
    return binder.call(name, node, [binder.bind(node.this), binder.bind(node.expression), *options])


def _escape(binder: FormBinder, node: exp.Expr) -> Expr:
    if isinstance(node.this, exp.Not):
        return binder.call("not", node, [_escaped(binder, node.this.this, node)])
    return _escaped(binder, node.this, node)


def _escaped(binder: FormBinder, like: exp.Expr, node: exp.Expr) -> Expr:
    if not isinstance(like, exp.Like | exp.ILike):
        raise binder.source.error("ESCAPE belongs to LIKE and ILIKE", node)
    refuse_bare(binder.source, like.this, like.expression)
    call = _like_call(binder, like, node, [like.this, like.expression, node.expression])
    return binder.call("not", node, [call]) if like.args.get("negate") else call


BUCKETS = frozenset({"time_bucket", "tumble"})
"""The names of the function that rounds a time down to a multiple of an INTERVAL."""


def bucket(binder: FormBinder, name: str, node: exp.Expr) -> Expr:
    """Bind time_bucket(INTERVAL, t), or tumble(t, INTERVAL), which is the same function."""
    nodes = list(node.expressions) if name == "time_bucket" else list(node.expressions)[::-1]
    if len(nodes) != 2 or not isinstance(nodes[0], exp.Interval):
        taken, way = ("an INTERVAL and a time", "INTERVAL '15' MINUTE, t")
        if name == "tumble":
            taken, way = "a time and an INTERVAL", "t, INTERVAL '15' MINUTE"
        raise binder.source.error(f"{name} takes {taken}", node, hint=f"{name}({way})")
    width = [Literal(BIGINT, part) for part in interval(binder.source, nodes[0])]
    return binder.call("time_bucket", node, [*width, binder.bind(nodes[1])])


def _extract(binder: FormBinder, node: exp.Expr) -> Expr:
    part, time = node.this.name.lower(), binder.operand_of(node.expression)
    if isinstance(time, Span):
        return counted(binder, PART_ALIASES.get(part, part), node, time)
    return binder.call("extract", node, [Literal(TEXT, part), time])


def _trim(binder: FormBinder, node: exp.Expr) -> Expr:
    if node.args.get("collation") is not None:
        raise binder.source.unsupported("COLLATE", node)
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.args.get("position") or "", "trim")
    return binder.call(name, node, [binder.bind(part) for part in (node.this, node.expression) if part is not None])


def _substring(binder: FormBinder, node: exp.Expr) -> Expr:
    parts = (node.this, node.args.get("start"), node.args.get("length"))
    return binder.call("substr", node, [binder.bind(part) for part in parts if part is not None])


def position_arguments(node: exp.Expr) -> list[exp.Expr]:
    """The operands of position: `(text, part)`, from `position(part IN text)` or `position(text, part)`."""
    first = node.expressions[0] if len(node.expressions) == 1 else None
    if not isinstance(first, exp.In):
        return list(node.expressions)
    whole = first.args.get("field") or (first.expressions[0] if len(first.expressions) == 1 else None)
    return list(node.expressions) if whole is None else [whole, first.this]


_ZONE = re.compile(
    r"(?P<utc>UTC|GMT|Etc/UTC|Etc/GMT)|(?P<etc>Etc/GMT)(?P<way>[+-])(?P<count>[0-9]{1,2})"
    r"|(?P<sign>[+-])(?P<hours>[0-9]{2})(?::?(?P<minutes>[0-5][0-9]))?",
    re.IGNORECASE,
)
_FARTHEST = 18 * 60
"""The most minutes that a zone's time may differ from UTC."""


def _at_zone(binder: FormBinder, node: exp.Expr) -> Expr:
    """Bind `t AT TIME ZONE 'zone'`, the local time in the zone at the instant t."""
    micros, time = _offset(binder.source, node), binder.bind(node.this)
    if time.type != TIMESTAMP and not is_null_literal(time):
        raise binder.source.error(f"AT TIME ZONE needs a TIMESTAMP, not {time.type}", node, reason="TYPE_MISMATCH")
    return binder.call("add_interval", node, [time, Literal(BIGINT, 0), Literal(BIGINT, micros)])


def _offset(source: StatementText, node: exp.Expr) -> int:
    """The microseconds by which a zone's local time is ahead of UTC. Refuses zones without a fixed offset."""
    zone, time = node.args["zone"], node.this
    if time.find(exp.AtTimeZone) is not None:
        hint = "an instant goes in; the clock of a zone comes out: subtract an INTERVAL to go back"
        raise source.error("AT TIME ZONE of what has been given a zone already", node, hint=hint)
    if isinstance(time.unnest(), exp.Cast) and time.unnest().args["to"].this is not exp.DType.TIMESTAMPTZ:
        raise source.error("AT TIME ZONE needs an instant", node, hint="write TIMESTAMPTZ for TIMESTAMP, in UTC")
    written = _ZONE.fullmatch(zone.name) if isinstance(zone, exp.Literal) and zone.is_string else None
    if written is None:
        hint = "give its offset, as in '+02:00', or 'UTC': what is kept must not depend on tables of zones"
        named = repr(zone.name[:40]) if isinstance(zone, exp.Literal) else source.written(zone)
        raise source.unsupported(f"the zone {named}", zone, hint=hint)
    if written["utc"]:
        return 0
    hours, minutes = int(written["count"] or written["hours"]), int(written["minutes"] or 0)
    if hours * 60 + minutes > _FARTHEST:
        raise source.error("a zone is at most 18 hours away from UTC", zone)
    east = written["way"] == "-" if written["etc"] else written["sign"] == "+"  # Etc/GMT-2 is east of UTC
    return (hours * 60 + minutes) * (60_000_000 if east else -60_000_000)


SPANNED = frozenset({"epoch", "epoch_ms", "epoch_us", "extract", "date_part", "datepart", *PARTS})
"""Functions of a time that also take a span between two times."""


def spanned(binder: FormBinder, name: str, node: exp.Expr) -> Expr:
    """Bind a function of `SPANNED` with a time or a span as its last argument."""
    *parts, last = node.expressions
    bound, time = [binder.bind(part) for part in parts], binder.operand_of(last)
    if not isinstance(time, Span):
        return binder.call(name, node, [*bound, time])
    if name in ("extract", "date_part", "datepart") and len(bound) == 1 and is_text_literal(bound[0]):
        part = str(bound[0].value).lower() if isinstance(bound[0], Literal) else ""
        name, bound = PART_ALIASES.get(part, part), []
    if bound:
        raise refused(binder.source, node)
    return counted(binder, name, node, time)


def _alone(binder: FormBinder, node: exp.Expr) -> Expr:
    raise refused(binder.source, node)


SPELLED: dict[type[exp.Expr], Callable[[Any, Any], Expr]] = {
    exp.Case: _case,
    **dict.fromkeys((exp.Like, exp.ILike), _like),
    **dict.fromkeys((exp.RegexpLike, exp.RegexpILike, exp.SimilarTo), _regex),
    exp.Escape: _escape,
    exp.AtTimeZone: _at_zone,
    exp.Interval: _alone,
    exp.Extract: _extract,
    exp.Trim: _trim,
    exp.Substring: _substring,
    exp.Window: window_function,
}
