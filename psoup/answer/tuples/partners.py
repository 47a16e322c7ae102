"""The partners of a tuple in the joins of a query: the tuples with which it makes a row, or that keep its row out.

    FROM o JOIN s ON o.k = s.k LEFT JOIN c ON c.id = o.c WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.o = o.id)
      tuple 7 of o      partner   o.k = s.k               s 12
                        partner   LEFT JOIN o.c = c.id    none: c is missing
                        absence   ANTI JOIN o.id = r.o    r 4 keeps it out

The joins above the tuple's source are evaluated for this tuple alone, from its source up. They end at the first step
that depends on other rows: groups, DISTINCT, OVER and LIMIT. A set operation is the last step. The first partner in the
order of tuple IDs counts.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from psoup.answer.tuples.conditions import MatchCondition, PartnerKind
from psoup.execution.plan import rows_of
from psoup.execution.rows.source_rows import Reading
from psoup.execution.select.match_forms import Matches
from psoup.expressions.tree import ID_INDEX, AttributeRef, Call, Expr, Literal, sources_of
from psoup.model import BIGINT, BOOLEAN, ID_COLUMN
from psoup.plan.nodes import (
    Filter,
    Join,
    LastRows,
    Node,
    PairFactor,
    PartnerJoin,
    Project,
    SetOperation,
    SetOperator,
    Sort,
    Source,
    names_of,
)
from psoup.plan.partners import JoinKind
from psoup.plan.written_text import written_expr
from psoup.values.columns import Column

_FLIPPED = {"eq": "eq", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
"""Each operator after its operands are swapped."""
_ASOF = (JoinKind.ASOF, JoinKind.ASOF_LEFT)

Found = tuple[tuple[str, int | None], ...]
"""Sources by name, each with the ID of the partner. None: a row of a subselect."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A tuple of the source at `place`. `alone`: its matches: the tuple. `reading`: the matches of all sources."""

    place: int
    tuple_id: int
    alone: Sequence[Matches]
    reading: Reading

    def only(self) -> Reading:
        """The reading in which the source has no tuple but this one."""
        matches = [self.alone if place == self.place else each for place, each in enumerate(self.reading.matches)]
        return replace(self.reading, matches=matches)

    def rows_in(self, node: Node) -> Node:
        """The rows of a node that have the tuple. A FULL JOIN also has rows without any tuple of the source."""
        if isinstance(node, Source | LastRows):
            return node
        if isinstance(node, Project):
            return replace(node, input=self.rows_in(node.input))
        return Filter(node, Call(BOOLEAN, "eq", (_id_of(self.place), Literal(BIGINT, self.tuple_id))))


def partner_steps(plan: Node, subject: Subject) -> Iterator[MatchCondition]:
    """Yield the conditions over several sources that the tuple must satisfy, each with the partners.

    Stops after the first condition that fails. Raises as an invocation. Costs up to two joins of the tuple with the
    other sides for each condition.
    """
    for node, at in _above(plan, subject.place):
        steps = list(_of_node(node, at, subject))
        yield from steps
        if any(not step.passed for step in steps) or (isinstance(node, PartnerJoin) and at and node.kind.filters):
            return


def _above(plan: Node, place: int) -> list[tuple[Node, int]]:
    """The nodes above a source that look at one row at a time, and a set operation above them. The lowest is the first.

    Each has the number of its input in which the source is.
    """
    path, node = list[tuple[Node, int]](), plan
    while not isinstance(node, Source):
        at = next(at for at, each in enumerate(node.inputs) if any(source.place == place for source in each.sources))
        path.append((node, at))
        node = node.inputs[at]
    path.reverse()
    single = (LastRows, Join, PartnerJoin, Filter, Project, Sort)
    end = next((at for at, (each, _) in enumerate(path) if not isinstance(each, single)), len(path))
    return path[: end + 1] if end < len(path) and isinstance(path[end][0], SetOperation) else path[:end]


def _of_node(node: Node, at: int, subject: Subject) -> Iterator[MatchCondition]:
    if isinstance(node, Join):
        yield from _of_join(node, at, subject)
    elif isinstance(node, PartnerJoin):
        yield _of_partner_join(node, at, subject)
    elif isinstance(node, Filter):
        passed = _first(subject.rows_in(node), subject.only(), ()) is not None
        yield MatchCondition("factor", written_expr(node.condition, names_of(node)), passed)
    elif isinstance(node, SetOperation) and node.operator is not SetOperator.UNION and not node.all:
        yield _of_set_operation(node, at, subject)


def _of_join(node: Join, at: int, subject: Subject) -> Iterator[MatchCondition]:
    """The conditions of an inner join: with each other input, then all together."""
    for other, right in enumerate(node.inputs):
        pair = _pair(node, subject.rows_in(node.inputs[at]), right)
        if other != at and (len(node.inputs) == 2 or pair.keys or pair.bands or pair.rest):
            partners = _partners(pair, subject, at=0)
            yield MatchCondition("partner", _text(pair), partners is not None, partners=partners or ())
            if partners is None:
                return
    if len(node.inputs) > 2:
        other_leaves = [leaf for other, each in enumerate(node.inputs) if other != at for leaf in each.leaves]
        partners = _first(subject.rows_in(node), subject.only(), other_leaves)
        yield MatchCondition("partner", node.label, partners is not None, partners=partners or ())


def _pair(node: Join, left: Node, right: Node) -> PartnerJoin:
    """The join of two inputs of an inner join, with the conditions that read no other input."""
    ours, theirs = _places(left), _places(right)

    def towards(factors: Sequence[PairFactor]) -> tuple[PairFactor, ...]:
        oriented = [factor if factor.sources[0] in ours else _flipped(factor) for factor in factors]
        return tuple([each for each in oriented if each.sources[0] in ours and each.sources[1] in theirs])

    rest = tuple([condition for condition in node.rest if sources_of(condition) <= ours | theirs])
    return PartnerJoin(left, right, JoinKind.LEFT, towards(node.keys), towards(node.bands), rest)


def _flipped(factor: PairFactor) -> PairFactor:
    return PairFactor(_FLIPPED[factor.operator], factor.right, factor.left, factor.implied)


def _places(node: Node) -> frozenset[int]:
    return frozenset(leaf.place for leaf in node.leaves)


def _of_partner_join(node: PartnerJoin, at: int, subject: Subject) -> MatchCondition:
    """The condition of a join for a tuple of its left (`at` is 0) or of its right (1)."""
    kind, partners = node.kind, _partners(node, subject, at)
    is_kept = kind.keeps_right if at else kind.keeps_left
    condition: PartnerKind = "partner"
    passed = is_kept or partners is not None
    if kind in (JoinKind.ANTI, JoinKind.NOT_IN, JoinKind.AS_OF_ANTI):
        condition, passed = ("removal", True) if at else ("absence", partners is None)
    return MatchCondition(condition, node.label, passed, partners=partners or ())


def _partners(node: PartnerJoin, subject: Subject, at: int) -> Found | None:
    """The first partner of the tuple in a join. None if it has none."""
    other = node.inputs[1 - at]
    if at and node.kind in _ASOF:  # the other tuples of the right decide whether this one is the closest
        closest = subject.rows_in(replace(node, kind=JoinKind.ASOF))
        return _first(closest, subject.reading, node.left.leaves)
    left, right = (subject.rows_in(each) if place == at else each for place, each in enumerate(node.inputs))
    node = replace(node, left=left, right=right)
    rest = node.rest
    if node.member is not None:
        equal = Call(BOOLEAN, "eq", node.member)
        rest = (*rest, Call(BOOLEAN, "or", (equal, Call(BOOLEAN, "is_null", (equal,)))))
    kind = JoinKind.ASOF if node.kind in _ASOF else JoinKind.RIGHT if at else JoinKind.LEFT
    if node.kind.is_as_of:  # each version knows when it ends
        kind = JoinKind.AS_OF
    if any(isinstance(leaf, Source) for leaf in other.leaves):
        joined = replace(node, kind=kind, rest=rest, member=None)
        return _first(joined, subject.only(), other.leaves) or None
    tested = replace(node, kind=JoinKind.SEMI, rest=rest, member=None)
    if _first(tested, subject.only(), ()) is None:
        return None
    return tuple([(leaf.alias, None) for leaf in other.leaves])


def _of_set_operation(node: SetOperation, at: int, subject: Subject) -> MatchCondition:
    """The condition of INTERSECT and EXCEPT: whether the other SELECT has a row that equals the row of the tuple."""
    left, right = (subject.rows_in(each) if place == at else each for place, each in enumerate(node.inputs))
    both = replace(node, left=left, right=right, operator=SetOperator.INTERSECT)
    equal = _first(both, subject.only(), ()) is not None
    names = [(source.alias or source.spec.name, None) for source in node.inputs[1 - at].sources]
    partners = tuple(names[:1]) if equal else ()
    if node.operator is SetOperator.INTERSECT:
        return MatchCondition("partner", node.label, equal, partners=partners)
    return MatchCondition("removal" if at else "absence", node.label, bool(at) or not equal, partners=partners)


def _first(node: Node, reading: Reading, leaves: Sequence[Node]) -> Found | None:
    """The tuples of `leaves` in the first row of a node, without missing ones. None if there is no row."""
    named = [leaf for leaf in leaves if isinstance(leaf, Source)]
    rows = rows_of(node, reading)
    rows.cut(1, 0)
    outputs: list[Expr] = [*(_id_of(leaf.place) for leaf in named), Literal(BOOLEAN, True)]
    with closing(_rows(rows.columns(outputs, 1))) as parts:
        columns = next(parts, None)
    if columns is None:
        return None
    ids = [column.to_arrow()[0].as_py() for column in columns[:-1]]
    return tuple([(leaf.alias, number) for leaf, number in zip(named, ids, strict=True) if number is not None])


def _rows(parts: Iterator[list[Column]]) -> Generator[list[Column], None, None]:
    """The parts that have a row."""
    yield from (columns for columns in parts if len(columns[-1]))


def _id_of(place: int) -> AttributeRef:
    return AttributeRef(BIGINT, ID_INDEX, ID_COLUMN, place)


def _text(node: PartnerJoin) -> str:
    """The conditions of a join alone, without its kind."""
    names = names_of(node.left, node.right)
    factors = [*node.keys, *node.bands]
    stated = [factor for factor in factors if not factor.implied] or factors
    conditions = [factor.written(names) for factor in stated] + [
        written_expr(condition, names) for condition in node.rest
    ]
    return " AND ".join(conditions) or "TRUE"
