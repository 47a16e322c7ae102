"""Joins that also depend on rows without a partner: outer joins, semi-joins, anti-joins, ASOF joins and NOT IN.

Also joins of a stream with a table AS OF the stream: each row of the left gets the version that held at its time.

    left      right            LEFT          SEMI    ANTI        a partner: a row of the right that satisfies all
    a b       b' b" c          a -, b b', b b"   b       a       conditions of the join with a row of the left

A row of the result refers to tuples of all leaves of its inputs. A missing tuple is the position `MISSING`, and all its
columns are NULL. SEMI, ANTI and NOT_IN give rows of the left only. So do AS_OF_SEMI and AS_OF_ANTI.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psoup.expressions.tree import Expr
from psoup.plan.canonical import exact_name
from psoup.plan.inputs import OrderKey, Output, PairFactor, Source, names_of
from psoup.plan.patterns import Operator
from psoup.plan.written_text import written_expr

if TYPE_CHECKING:
    from psoup.plan.nodes import Leaf, Node

MISSING = -1
"""The position of a missing tuple in the rows of a join."""


class JoinKind(enum.Enum):
    """The kinds of joins with a rule for rows without a partner. The value is the name in SQL."""

    LEFT = "LEFT JOIN"
    RIGHT = "RIGHT JOIN"
    FULL = "FULL JOIN"
    SEMI = "SEMI JOIN"
    ANTI = "ANTI JOIN"
    ASOF = "ASOF JOIN"
    ASOF_LEFT = "ASOF LEFT JOIN"
    NOT_IN = "NOT IN"
    AS_OF = "AS OF JOIN"
    AS_OF_LEFT = "AS OF LEFT JOIN"
    AS_OF_SEMI = "AS OF SEMI JOIN"
    AS_OF_ANTI = "AS OF ANTI JOIN"

    @property
    def keeps_left(self) -> bool:
        """Whether a row of the left without a partner is in the result, with a missing right."""
        return self in (JoinKind.LEFT, JoinKind.FULL, JoinKind.ASOF_LEFT, JoinKind.AS_OF_LEFT)

    @property
    def keeps_right(self) -> bool:
        """Whether a row of the right without a partner is in the result, with a missing left."""
        return self in (JoinKind.RIGHT, JoinKind.FULL)

    @property
    def filters(self) -> bool:
        """Whether the result has rows of the left only."""
        return self in (JoinKind.SEMI, JoinKind.ANTI, JoinKind.NOT_IN, JoinKind.AS_OF_SEMI, JoinKind.AS_OF_ANTI)

    @property
    def removes(self) -> bool:
        """Whether a new tuple of one input may remove a row of the result: the row said that it has no partner."""
        return self is not JoinKind.SEMI and not self.is_as_of

    @property
    def is_as_of(self) -> bool:
        """Whether the right is a table, and each row of the left gets the version that held at its time."""
        return self in (JoinKind.AS_OF, JoinKind.AS_OF_LEFT, JoinKind.AS_OF_SEMI, JoinKind.AS_OF_ANTI)

    @property
    def shows_missing(self) -> bool:
        """Whether a row of the result says that a row of the left has no version AS OF its time."""
        return self in (JoinKind.AS_OF_LEFT, JoinKind.AS_OF_ANTI)


@dataclass(frozen=True, slots=True)
class PartnerJoin:
    """The join of two inputs with a rule for rows that have no partner.

    The rows are in the order of FROM: by the tuple IDs of the first leaf, then of the second, and so on. A missing
    tuple comes last. `keys`, `bands`, `rest`: conditions on pairs, as in `Join`. `rest` may also have conditions over
    one input, which decide about partners only.

    `member`: the two operands of `x NOT IN (SELECT y …)`, x over the left and y over the right. An ASOF join has one
    band. It gives each row of the left its closest partner by this band. A join AS OF has one band, too: the time of
    the left is at least the time of the right.
    """

    left: Node
    right: Node
    kind: JoinKind
    keys: tuple[PairFactor, ...] = ()
    bands: tuple[PairFactor, ...] = ()
    rest: tuple[Expr, ...] = ()
    member: tuple[Expr, Expr] | None = None

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The input nodes."""
        return self.left, self.right

    @property
    def may_correct(self) -> bool:
        """Whether the first version of a key may take a row from the result of a join AS OF. The row had no version.

        A first version may hold from the beginning, or come late in event time.
        """
        spec = self.right.sources[0].spec
        late = spec.table is not None and (not spec.table.first_from_arrival or spec.event_time)
        return self.kind.shows_missing and late

    @property
    def sources(self) -> tuple[Source, ...]:
        """All sources in the node's subtree, by place."""
        return tuple(sorted((*self.left.sources, *self.right.sources), key=lambda source: source.place))

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The leaves that later nodes can read, in the order of FROM."""
        return self.left.leaves if self.kind.filters else (*self.left.leaves, *self.right.leaves)

    @property
    def schema(self) -> tuple[Output, ...]:
        """The columns of the rows: the columns of all leaves, one after the other."""
        return tuple(output for leaf in self.leaves for output in leaf.schema)

    @property
    def order(self) -> tuple[OrderKey, ...]:
        """The order of the rows: by the tuple IDs of the leaves, in the order of FROM."""
        return tuple(key for leaf in self.leaves for key in leaf.order)

    @property
    def keeps_rows(self) -> bool:
        """Whether the node's result has a row for each row of its sources."""
        return False

    @property
    def operator(self) -> Operator:
        """The kind of operator, which selects the rule for the node's update pattern (`psoup.plan.patterns`)."""
        if self.kind.is_as_of:  # of the left alone
            return Operator.UNARY_WEAKEST
        return Operator.STRICT if self.kind.removes else Operator.WEAK

    @property
    def label(self) -> str:
        """The text of the node alone, without its inputs."""
        names = names_of(self.left, self.right)
        factors = self.keys if self.kind.is_as_of else (*self.keys, *self.bands)
        stated = [factor.written(names) for factor in factors if not factor.implied]
        if self.kind.is_as_of:
            begin, table = self.bands[0], self.right.leaves[0].alias
            stated.append(f"{exact_name(table)} holds at {written_expr(begin.left, names)}")
        rest = [written_expr(condition, names) for condition in self.rest]
        member = []
        if self.member is not None:
            value, column = (written_expr(side, names) for side in self.member)
            member = [f"{value} = {column}"]
        return f"{self.kind.value} {' AND '.join([*member, *stated, *rest])}".rstrip()
