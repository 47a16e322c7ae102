"""Boolean factors of WHERE: this module pushes NOT to the leaves, and converts the condition to CNF.

    a BETWEEN 1 AND 5 AND (b = 1 OR c LIKE 'x%')   ->   { a in [1, 6) }, { b in [1, 2) or c in ['x', 'y') }

    condition --leaf by leaf--> Formula (see `formula`) --distribute OR over AND, within limits--> Factors

Each factor is a union of interval terms. For `expr RELOP constant`, `expr` becomes a derived attribute. Some conditions
have no interval form, such as a general LIKE, or are too large for CNF. These are *opaque*: the condition is a derived
BOOLEAN attribute that must be TRUE.
"""

from __future__ import annotations

from psoup.expressions.tree import Call, Expr, Literal
from psoup.model import BOOLEAN, TEXT
from psoup.plan.canonical import factor_text, term_text
from psoup.plan.factors import Factor, Interval, Term
from psoup.sql.where.differences import difference
from psoup.sql.where.formula import (
    ALWAYS,
    NEVER,
    All,
    Either,
    Formula,
    Leaf,
    conjunction,
    disjunction,
    leaf,
    negation,
    opaque,
)
from psoup.sql.where.intervals import (
    EVERYTHING,
    FLIPPED,
    NOTHING,
    Intervals,
    compared,
    complement,
    intersection,
    normal,
    prefixed,
)
from psoup.sql.where.monotone import followed_back
from psoup.work.rest_points import may_rest

MAX_CLAUSES = 16
"""The most factors that one conjunct may become when OR is distributed over AND. A larger conjunct becomes opaque."""

MAX_TERMS = 64
"""The most terms of one factor. A larger factor becomes opaque."""


def factors_of(condition: Expr | None) -> tuple[Factor, ...]:
    """The factors of a WHERE condition (None: there is no WHERE), in canonical order.

    The result () matches every tuple, and (Factor(()),) matches none.
    """
    if condition is None:
        return ()
    parts = parts_of(condition)
    if parts is None:
        return (Factor(()),)
    return tuple(sorted({factor_of(part) for part in parts}, key=factor_text))


def parts_of(condition: Expr) -> tuple[Formula, ...] | None:
    """A condition in CNF, as leaves of different attributes and disjunctions of leaves. None if it is never true."""
    whole = formula(condition)
    if whole == ALWAYS:
        return ()
    conjuncts = whole.parts if isinstance(whole, All) else (whole,)
    clauses = [clause for conjunct in conjuncts for clause in _absorbed(_clauses(conjunct))]
    whole = conjunction(clauses)  # several clauses may have the same attribute
    if whole == NEVER:
        return None
    return whole.parts if isinstance(whole, All) else (whole,)


def factor_of(part: Formula) -> Factor:
    """Convert a part that `parts_of` returned to a factor."""
    terms = [Term(disjunct.attribute, _closed(disjunct), disjunct.nulls) for disjunct in _leaves(part)]
    return Factor(tuple(sorted(terms, key=term_text)))


def _closed(part: Leaf) -> Intervals:
    """The intervals of a leaf, in the form of factors: a single BOOLEAN value is [0, 1) or [1, 2)."""
    if part.attribute.type == BOOLEAN and len(part.intervals) == 1 and part.intervals != EVERYTHING:
        return (Interval(0, 1) if part.intervals[0].low is None else Interval(1, 2),)
    return part.intervals


# OR over AND -----------------------------------------------------------------------------------------------


def _clauses(conjunct: Formula) -> list[Formula]:
    """The conjunct in CNF, as leaves and disjunctions of leaves. If CNF is too large, one opaque leaf."""
    clauses = _distribute(conjunct)
    if clauses is not None and all(len(clause) <= MAX_TERMS for clause in clauses):
        return [disjunction(clause) for clause in clauses]
    origin = conjunct.origin if isinstance(conjunct, All | Either) else None
    assert origin is not None
    return [opaque(origin)]


def _absorbed(clauses: list[Formula]) -> list[Formula]:
    """Drop the clauses that other clauses of the conjunct imply: a = 1 makes (a = 1 OR b = 2) redundant."""
    needed: list[Formula] = []
    for clause in clauses:
        if clause == ALWAYS:  # without leaves it would seem to imply all other clauses
            continue
        if not any(_implies(other, clause) for other in needed):
            needed = [other for other in needed if not _implies(clause, other)]
            needed.append(clause)
    return needed


def _implies(premise: Formula, conclusion: Formula) -> bool:
    """Whether `premise` implies `conclusion`: each of its leaves lies within a leaf of `conclusion` on the same
    attribute."""
    around = {leaf.attribute: leaf for leaf in _leaves(conclusion)}
    return all(
        outer is not None
        and intersection(inner.intervals, outer.intervals) == inner.intervals
        and (outer.nulls or not inner.nulls)
        for inner in _leaves(premise)
        for outer in (around.get(inner.attribute),)
    )


def _leaves(clause: Formula) -> list[Leaf]:
    parts = clause.parts if isinstance(clause, Either) else (clause,)
    return [part for part in parts if isinstance(part, Leaf)]


def _distribute(node: Formula) -> list[list[Formula]] | None:
    if isinstance(node, Leaf):
        return [[node]]
    parts = [_distribute(part) for part in node.parts]
    if isinstance(node, All):
        gathered: list[list[Formula]] = []
        for part in parts:
            if part is None:
                return None
            gathered.extend(part)
        return gathered if len(gathered) <= MAX_CLAUSES else None
    product: list[list[Formula]] = [[]]
    for part in parts:
        if part is None or len(product) * len(part) > MAX_CLAUSES:
            return None
        product = [clause + other for clause in product for other in part]
    return product


# Leaves ----------------------------------------------------------------------------------------------------


def formula(expr: Expr, negated: bool = False) -> Formula:
    """The formula that is true exactly for the rows in which the condition `expr`, or NOT `expr`, is TRUE."""
    may_rest()
    if isinstance(expr, Literal):
        return ALWAYS if expr.value is not None and bool(expr.value) != negated else NEVER
    if not isinstance(expr, Call):
        return opaque(expr, negated)
    if expr.name == "not":
        return formula(expr.args[0], not negated)
    if expr.name in ("and", "or"):
        origin = negation(expr) if negated else expr
        parts = [formula(arg, negated) for arg in expr.args]
        join = conjunction if (expr.name == "and") != negated else disjunction
        return join(parts, origin)
    if expr.name in FLIPPED:
        return _comparison(expr, negated)
    if expr.name in ("is_null", "is_not_null"):
        null = (expr.name == "is_null") != negated
        return leaf(expr.args[0], NOTHING if null else EVERYTHING, null)
    if expr.name == "is_distinct":
        return _distinct(expr, negated)
    if expr.name == "in":
        return _membership(expr, negated)
    if expr.name == "like":
        return _pattern(expr, negated)
    return opaque(expr, negated)


def _comparison(expr: Call, negated: bool) -> Formula:
    left, right = expr.args
    operator = expr.name
    if isinstance(left, Literal):
        left, right, operator = right, left, FLIPPED[operator]
    if not isinstance(right, Literal):
        distance = difference(operator, left, right)
        if distance is None:
            return opaque(expr, negated)
        keys = compared(distance.operator, distance.attribute.type, distance.constant)
        guards = [leaf(base, allowed) for base, allowed in distance.guards]
        return conjunction([_within(distance.attribute, keys, negated), *guards], negation(expr) if negated else expr)
    if right.value is None or isinstance(left, Literal):
        return NEVER if right.value is None else opaque(expr, negated)
    return _within(left, compared(operator, left.type, right), negated)


def _within(attribute: Expr, intervals: Intervals, negated: bool) -> Formula:
    """The formula for a key of `attribute` in `intervals`, or if `negated` outside of them.

    If the attribute is itself a condition, compared with TRUE or FALSE, the result is the formula of that condition.
    """
    keys = complement(intervals) if negated else intervals
    followed = followed_back(attribute, keys)
    if followed is not None:
        return _within(*followed, False)
    if attribute.type == BOOLEAN and isinstance(attribute, Call) and len(keys) == 1 and keys != EVERYTHING:
        return formula(attribute, negated=keys[0].low is None)
    return leaf(attribute, keys)


def _distinct(expr: Call, negated: bool) -> Formula:
    """The formula of IS DISTINCT FROM a constant: NULL, and all keys except the constant's.

    If `negated`, it is the constant's key. For the constant NULL it is IS NOT NULL, or if `negated` IS NULL.
    """
    left, right = expr.args
    if isinstance(left, Literal):
        left, right = right, left
    if not isinstance(right, Literal) or isinstance(left, Literal):
        return opaque(expr, negated)
    if right.value is None:
        return leaf(left, NOTHING if negated else EVERYTHING, negated)
    keys = compared("eq", left.type, right)
    return _within(left, keys, False) if negated else leaf(left, complement(keys), True)


def _membership(expr: Call, negated: bool) -> Formula:
    value, *items = expr.args
    if isinstance(value, Literal):
        return opaque(expr, negated)
    keys: list[Interval] = []
    for item in items:
        assert isinstance(item, Literal)
        if item.value is not None:
            keys.extend(compared("eq", value.type, item))
        elif negated:
            return NEVER  # x NOT IN (…, NULL) is FALSE or NULL
    return _within(value, normal(value.type, keys), negated)


def _pattern(expr: Call, negated: bool) -> Formula:
    """The formula of LIKE. LIKE 'x%' is an interval, LIKE 'x' an equality, and LIKE '%' only excludes NULL.

    Other patterns are opaque.
    """
    value, pattern = expr.args[0], expr.args[1]
    if not isinstance(pattern, Literal) or isinstance(value, Literal):
        return opaque(expr, negated)
    escape = expr.args[2] if len(expr.args) > 2 else Literal(TEXT, "")
    if pattern.value is None or not isinstance(escape, Literal) or escape.value is None:
        return NEVER
    literal_start = like_prefix(str(pattern.value), str(escape.value))
    if literal_start is None:
        return opaque(expr, negated)
    prefix, open_end = literal_start
    if not open_end:
        return _within(value, compared("eq", TEXT, Literal(TEXT, prefix)), negated)
    return _within(value, prefixed(prefix) if prefix else EVERYTHING, negated)


def like_prefix(pattern: str, escape: str) -> tuple[str, bool] | None:
    """The text before the first wildcard, and whether a % follows it. None for a pattern with a _, or with text
    after a %."""
    literal: list[str] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == escape:
            at += 1
            if at == len(pattern):
                return None
            literal.append(pattern[at])
        elif character == "%":
            return ("".join(literal), True) if not pattern[at:].strip("%") else None
        elif character == "_":
            return None
        else:
            literal.append(character)
        at += 1
    return "".join(literal), False
