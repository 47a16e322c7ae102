"""Sources whose tuples may take rows away from an answer, as the plan alone decides.

    a LEFT JOIN b      a tuple of b removes the row in which b is missing, and adds rows      {b}
    a ANTI JOIN b      a tuple of b removes the rows of its partners                          {b}
    a EXCEPT b         a tuple of b removes the rows that are equal                           {b}
    a ANTI (b ANTI c)  a tuple of c removes a row of b, and so adds rows of a                 {b}

If such a source lacks a tuple, the answer may have a row that the tuple would have prevented. Changes of groups by new
tuples do not count, nor do the rows that ORDER BY with LIMIT pushes out.
"""

from __future__ import annotations

from typing import NamedTuple

from psoup.plan.nodes import (
    Aggregate,
    LastRows,
    Limit,
    Node,
    Over,
    PartnerJoin,
    SetOperation,
    SetOperator,
    Source,
    walk,
)
from psoup.plan.partners import JoinKind
from psoup.plan.plan_facts import plan_fact

_ASOF = (JoinKind.ASOF, JoinKind.ASOF_LEFT)
_CHANGING = (Aggregate, LastRows, Limit, Over)
"""Nodes in which a new row may replace other rows of their results."""


class _Places(NamedTuple):
    """The places of sources with tuples that add rows to a node's result, and with tuples that remove rows."""

    adding: frozenset[int]
    removing: frozenset[int]

    def __or__(self, other: _Places) -> _Places:
        return _Places(self.adding | other.adding, self.removing | other.removing)

    @property
    def swapped(self) -> _Places:
        """The places for an operator that keeps rows without a partner in the node."""
        return _Places(self.removing, self.adding)


@plan_fact
def absences(plan: Node) -> frozenset[int]:
    """The places of the sources whose tuples may take rows away from the answer. O(size of the plan)."""
    return _places(plan).removing


def _places(node: Node) -> _Places:
    if isinstance(node, Source):
        return _Places(frozenset((node.place,)), frozenset())
    if isinstance(node, PartnerJoin):
        return _of_partner_join(node)
    if isinstance(node, SetOperation) and node.operator is SetOperator.EXCEPT:
        return _places(node.left) | _absent(node.right)
    return _union([_places(each) for each in node.inputs])


def _of_partner_join(node: PartnerJoin) -> _Places:
    left, right, kind = _places(node.left), _places(node.right), node.kind
    if kind is JoinKind.AS_OF_ANTI and node.may_correct:
        return left | _absent(node.right)
    if kind.is_as_of:  # a version never changes the rows that the answer has shown
        return left | right
    if kind in (JoinKind.ANTI, JoinKind.NOT_IN):
        return left | _absent(node.right)
    if kind.keeps_right:
        left |= _absent(node.left)
    if kind.keeps_left or kind in _ASOF:
        right |= _absent(node.right)
    return left | right


def _absent(node: Node) -> _Places:
    """The places of an input whose rows prevent rows of the result."""
    places = _places(node).swapped
    if any(isinstance(each, _CHANGING) for _, each in walk(node)):
        places |= places.swapped
    return places


def _union(parts: list[_Places]) -> _Places:
    union = _Places(frozenset(), frozenset())
    for part in parts:
        union |= part
    return union
