"""The tree of joins of one FROM, and the place of each condition in it.

    a LEFT JOIN b ON a.k = b.k AND b.x > 1 AND a.y = 2  WHERE a.z = 3 AND b.w IS NULL
      Kept a.k = b.k, a.y = 2     a.y = 2 decides about partners only: it must not remove rows of a
        Part a    z = 3           a condition of WHERE on the source whose rows are kept
        Part b    x > 1           a condition of ON on the other source
      Filter b.w IS NULL          a condition of WHERE on a source that may be missing

A condition in ON goes to a source only if its join, and each outer join above, may drop rows of the source.
A condition in WHERE goes to a source only if no join above may lack a tuple of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from sqlglot import exp

from psoup.expressions.tree import TIME_INDEX, AttributeRef, Call, Expr, Literal, sources_of
from psoup.model import BOOLEAN, TIME_COLUMN, TIMESTAMP
from psoup.plan.inputs import Join, PairFactor
from psoup.plan.nodes import Filter, JoinKind, Leaf, Node, PartnerJoin, Source, windowed
from psoup.sql.composed.composition import Composition
from psoup.sql.composed.null_rejection import rejected_by
from psoup.sql.composed.scope import Renamed
from psoup.sql.join_conditions import Written, conjuncts, implied_keys, pair_factor
from psoup.sql.parser.grammar import EXTENT

_FLIPPED = {"eq": "eq", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
"""Each operator after its operands are swapped."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition under AND. `node`: its syntax, if it has a text. `renamed`: see `Scope.renamed`."""

    expr: Expr
    node: exp.Expr | None = None
    renamed: Renamed | None = ()

    @property
    def places(self) -> frozenset[int]:
        """The places of the leaves that it reads."""
        return sources_of(self.expr)

    @property
    def extent(self) -> tuple[int, int]:
        """The place of the condition in the statement: its first offset, and the offset after it. (0, 0): nowhere."""
        first, stop = (0, 0) if self.node is None else self.node.meta.get(EXTENT, (0, 0))
        return first, stop

    def text(self, written: Written) -> str | None:
        """The text of a condition on one stream, in the stream's own names. None if there is none."""
        at, stop = self.extent
        if self.renamed is None or not stop:
            return None
        pieces = []
        for first, last, name in self.renamed:
            pieces += [written(at, first), name]
            at = last
        return "".join([*pieces, written(at, stop)])


@dataclass(slots=True)
class Part:
    """A part of FROM that one leaf gives. `filters`: conditions that are not conditions of a side."""

    leaf: Leaf
    filters: list[Expr] = field(default_factory=list)

    @property
    def places(self) -> frozenset[int]:
        """The place of the leaf."""
        return frozenset({self.leaf.place})


@dataclass(slots=True)
class Inner:
    """An inner join of several parts, in the order of FROM."""

    inputs: list[Tree]
    conditions: list[Condition] = field(default_factory=list)

    @property
    def places(self) -> frozenset[int]:
        """The places of all leaves."""
        return frozenset().union(*(part.places for part in self.inputs))


@dataclass(slots=True)
class Kept:
    """A join with a rule for rows without a partner. `conditions`: the conditions of ON.

    `time`: of a join AS OF, the time of the left. `written`: whether the statement has the join, and not only its plan.
    """

    left: Tree
    right: Tree
    kind: JoinKind
    conditions: list[Condition] = field(default_factory=list)
    member: tuple[Expr, Expr] | None = None
    filters: list[Expr] = field(default_factory=list)
    time: AttributeRef | None = None
    written: bool = True

    @property
    def places(self) -> frozenset[int]:
        """The places of all leaves that later conditions may read."""
        return self.left.places if self.kind.filters else self.left.places | self.right.places


Tree = Part | Inner | Kept


def simplified(tree: Tree, conditions: Iterable[Condition], note: Callable[[str], None]) -> Tree:
    """The tree with simpler joins where `conditions` remove the rows with a missing tuple. Calls `note` for each."""
    rejected = frozenset[int]().union(*(rejected_by(condition.expr) for condition in conditions))
    return _simpler(tree, rejected, note)


def _simpler(tree: Tree, rejected: frozenset[int], note: Callable[[str], None]) -> Tree:
    if isinstance(tree, Part):
        return tree
    by_on = frozenset[int]().union(*(rejected_by(condition.expr) for condition in tree.conditions))
    if isinstance(tree, Inner):
        inputs = [_simpler(part, rejected | by_on, note) for part in tree.inputs]
        return flat(Inner(inputs, tree.conditions))
    kind = _kind(tree, rejected)
    if kind is not tree.kind and tree.written:
        shown = "an inner join" if kind is None else f"a {kind.value}"
        note(f"the {tree.kind.value} is answered as {shown}: WHERE removes the rows with a missing tuple")
    if kind is None:
        conditions = [*tree.conditions, *map(Condition, tree.filters)]  # of a subselect that was placed before
        return _simpler(Inner([tree.left, tree.right], conditions), rejected, note)
    tree.kind = kind
    tree.left = _simpler(tree.left, rejected | by_on if _ignores_left(kind) else rejected, note)
    tree.right = _simpler(tree.right, rejected if kind.keeps_right else rejected | by_on, note)
    return tree


def _kind(tree: Kept, rejected: frozenset[int]) -> JoinKind | None:
    """The kind of a join if the rows with a missing tuple of the places `rejected` are removed. None: inner."""
    left, right = bool(tree.left.places & rejected), bool(tree.right.places & rejected)
    if tree.kind is JoinKind.FULL:
        if left and right:
            return None
        return JoinKind.LEFT if left else JoinKind.RIGHT if right else tree.kind
    if (tree.kind is JoinKind.LEFT and right) or (tree.kind is JoinKind.RIGHT and left):
        return None
    if tree.kind is JoinKind.ASOF_LEFT and right:
        return JoinKind.ASOF
    if tree.kind is JoinKind.AS_OF_LEFT and right:
        return JoinKind.AS_OF
    return tree.kind


def flat(tree: Inner) -> Tree:
    """The inner join with the inputs of inner joins under it as its own inputs."""
    inputs, conditions = list[Tree](), list(tree.conditions)
    for part in tree.inputs:
        if isinstance(part, Inner):
            inputs += part.inputs
            conditions = [*part.conditions, *conditions]
        else:
            inputs.append(part)
    return inputs[0] if len(inputs) == 1 and not conditions else Inner(inputs, conditions)


class Placing:
    """Places conditions in a tree, and makes its plan."""

    def __init__(self, composition: Composition) -> None:
        self._composition = composition

    def settle(self, tree: Tree) -> None:
        """Place the conditions of all joins of the tree, from the top."""
        if isinstance(tree, Part):
            return
        stated, tree.conditions = tree.conditions, []
        for condition in stated:
            if isinstance(tree, Inner):
                self.place(tree, condition)
            else:
                self._place_on(tree, condition)
        for part in tree.inputs if isinstance(tree, Inner) else (tree.left, tree.right):
            self.settle(part)

    def place(self, tree: Tree, condition: Condition) -> None:
        """Place a condition that each row of the tree must satisfy, as deep as it can go."""
        if isinstance(tree, Part):
            self._place_at(tree, condition)
        elif isinstance(tree, Inner):
            below = [part for part in tree.inputs if condition.places <= part.places]
            if below:
                self.place(below[0], condition)
            else:
                tree.conditions.append(condition)
        elif tree.kind is not JoinKind.FULL and not tree.kind.keeps_right and condition.places <= tree.left.places:
            self.place(tree.left, condition)
        elif tree.kind in (JoinKind.RIGHT, JoinKind.AS_OF) and condition.places <= tree.right.places:
            self.place(tree.right, condition)
        else:
            tree.filters.append(condition.expr)

    def _place_on(self, tree: Kept, condition: Condition) -> None:
        """Place a condition of ON: it decides about partners."""
        if not tree.kind.keeps_right and condition.places <= tree.right.places:
            self.place(tree.right, condition)
        elif _ignores_left(tree.kind) and condition.places <= tree.left.places:
            self.place(tree.left, condition)
        else:
            tree.conditions.append(condition)

    def _place_at(self, part: Part, condition: Condition) -> None:
        leaf = part.leaf
        goes_below = isinstance(leaf, Source) and not (leaf.partition and leaf.partition.matching)
        text = condition.text(self._composition.written) if goes_below else None
        if text is not None:
            draft = self._composition.drafts[leaf.place]
            draft.texts.append(text)
            draft.conditions.append(condition.expr)
            draft.extents.append(condition.extent)
        else:
            part.filters.append(condition.expr)

    def plan(self, tree: Tree) -> Node:
        """The plan of a tree whose conditions are placed."""
        if isinstance(tree, Inner):
            return self._inner(tree)
        node = _leaf_node(tree.leaf) if isinstance(tree, Part) else self._kept(tree)
        return Filter(node, all_of(list(dict.fromkeys(tree.filters)))) if tree.filters else node

    def _inner(self, tree: Inner) -> Node:
        inputs = tuple(self.plan(part) for part in tree.inputs)
        keys, bands, rest = _factors(tree.conditions, None)
        if len(inputs) == 1:
            (node,) = inputs
            return Filter(node, all_of(rest)) if rest else node
        return Join(inputs, (*keys, *implied_keys(keys)), tuple(bands), tuple(rest))

    def _kept(self, tree: Kept) -> Node:
        left, right = self.plan(tree.left), self.plan(tree.right)
        keys, bands, rest = _factors(tree.conditions, tree)
        if tree.time is not None:
            return self._as_of(tree, left, keys)
        return PartnerJoin(left, right, tree.kind, tuple(keys), tuple(bands), tuple(rest), tree.member)

    def _as_of(self, tree: Kept, left: Node, keys: list[PairFactor]) -> Node:
        """The plan of a join AS OF. All conditions but keys are tested on the version that held at the row's time."""
        assert tree.time is not None and isinstance(tree.right, Part)
        table = tree.right.leaf
        begin = AttributeRef(TIMESTAMP, TIME_INDEX, TIME_COLUMN, table.place)
        parts = [part for condition in tree.conditions for part in conjuncts(condition.expr)]
        rest = [part for part in parts if (pair := pair_factor(part)) is None or _towards(pair, tree) not in keys]
        tested = tuple(dict.fromkeys([*rest, *tree.right.filters]))
        return PartnerJoin(left, table, tree.kind, tuple(keys), (PairFactor("ge", tree.time, begin),), tested)


def _leaf_node(leaf: Leaf) -> Node:
    """The node that gives the rows of a leaf in its window."""
    return windowed(leaf) if isinstance(leaf, Source) else leaf


def _ignores_left(kind: JoinKind) -> bool:
    """Whether a row of the left without a partner is not in the result."""
    return kind in (JoinKind.SEMI, JoinKind.ASOF, JoinKind.RIGHT, JoinKind.AS_OF, JoinKind.AS_OF_SEMI)


def all_of(conditions: list[Expr]) -> Expr:
    """The conditions joined by AND."""
    return conditions[0] if len(conditions) == 1 else Call(BOOLEAN, "and", tuple(conditions))


def _factors(
    conditions: Iterable[Condition], tree: Kept | None
) -> tuple[list[PairFactor], list[PairFactor], list[Expr]]:
    """The keys, bands and other conditions of a join. In a `Kept` tree, the first operand reads the left."""
    keys, bands, rest = list[PairFactor](), list[PairFactor](), list[Expr]()
    for condition in conditions:
        for part in conjuncts(condition.expr):
            if part == Literal(BOOLEAN, True):
                continue
            factor = pair_factor(part)
            if factor is not None and tree is not None:
                factor = _towards(factor, tree)
            if factor is None:
                rest.append(part)
            elif factor.operator == "eq":
                keys.append(factor)
            else:
                bands.append(factor)
    return list(dict.fromkeys(keys)), list(dict.fromkeys(bands)), list(dict.fromkeys(rest))


def _towards(factor: PairFactor, tree: Kept) -> PairFactor | None:
    """The factor with its first operand over the left. None if both operands read the same input."""
    first, second = factor.sources
    left, right = tree.left.places, tree.right.places
    if first in left and second in right:
        return factor
    if first in right and second in left:
        return PairFactor(_FLIPPED[factor.operator], factor.right, factor.left, factor.implied)
    return None
