"""The roles of a plan's sources: the use of their tuples in the answer.

a LEFT JOIN b … WHERE NOT EXISTS (SELECT … FROM c)    a rows, b optional, c absence.
… FROM a WHERE x IN (SELECT y FROM b)                 a rows, b partner.
… FROM a WHERE x > (SELECT avg(y) FROM b)             a rows, b scalar.
… FROM a UNION … FROM b EXCEPT … FROM c               a rows, b rows, c absence.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping

from psoup.plan.nodes import Node, PartnerJoin, Relation, SetOperation, SetOperator, Source
from psoup.plan.partners import JoinKind
from psoup.plan.plan_facts import plan_fact


class SourceRole(enum.Enum):
    """The use of a source's tuples."""

    ROWS = "rows"
    """They make the rows of the answer."""
    OPTIONAL = "optional"
    """They make the rows of the answer, and are missing in some rows: a side of an outer join."""
    PARTNER = "partner"
    """A row needs a partner among them: EXISTS, IN, SEMI JOIN, and the right of INTERSECT."""
    ABSENCE = "absence"
    """A row must not have a partner among them: NOT EXISTS, NOT IN, ANTI JOIN, and the right of EXCEPT."""
    SCALAR = "scalar"
    """They make the value of a scalar subselect."""


@plan_fact
def source_roles(plan: Node) -> Mapping[int, SourceRole]:
    """The role of each source, by its place. O(size of the plan)."""
    return dict(_roles(plan, SourceRole.ROWS))


def _roles(node: Node, role: SourceRole) -> Iterator[tuple[int, SourceRole]]:
    """Yield the places of the sources under a node, with their roles. `role`: the use of the node's rows.

    A role other than ROWS and OPTIONAL holds for all sources under the node.
    """
    if isinstance(node, Source):
        yield node.place, role
        return
    roles = [role] * len(node.inputs)
    if role in (SourceRole.ROWS, SourceRole.OPTIONAL):
        if isinstance(node, PartnerJoin):
            roles = _of_partner_join(node.kind, role)
        elif isinstance(node, SetOperation):
            roles[1] = _OF_RIGHT.get(node.operator, role)
        elif isinstance(node, Relation) and node.single:
            roles = [SourceRole.SCALAR]
    for each, its in zip(node.inputs, roles, strict=True):
        yield from _roles(each, its)


_OF_RIGHT = {SetOperator.INTERSECT: SourceRole.PARTNER, SetOperator.EXCEPT: SourceRole.ABSENCE}


def _of_partner_join(kind: JoinKind, role: SourceRole) -> list[SourceRole]:
    """The roles of the left and of the right input."""
    if kind in (JoinKind.SEMI, JoinKind.AS_OF_SEMI):
        return [role, SourceRole.PARTNER]
    if kind.filters:
        return [role, SourceRole.ABSENCE]
    left = SourceRole.OPTIONAL if kind.keeps_right else role
    return [left, SourceRole.OPTIONAL if kind.keeps_left else role]
