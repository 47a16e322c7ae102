"""Random WHERE clauses: leaves of every factor kind, under AND, OR and NOT.

    And(Leaf("between", …), Not(Leaf("like_prefix", …)))

For DuckDB every leaf is wrapped in TRY(…), because an error inside a leaf is UNKNOWN to PSoup, not a failure. Each leaf
says its factor kind and the kind of value it is about, which `coverage` counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from psoup.model import BIGINT, BOOLEAN, DATE, DOUBLE, STREAMED, TEXT, TIMESTAMP, DataType, Kind, decimal
from psoup_testing.histories.expressions import COMPARISONS, FORMS, Expression, Form, Maker, column, literal

TIME = column("_time", TIMESTAMP)
OPERATOR_KINDS = dict(zip(COMPARISONS, ("eq", "ne", "lt", "le", "gt", "ge"), strict=True))
ORDERED = tuple(OPERATOR_KINDS.values())


@dataclass(frozen=True, slots=True)
class Leaf:
    """A condition, with its factor kind and the kind of value that it tests."""

    factor: str
    about: Kind
    condition: Expression

    def psoup_sql(self) -> str:
        """As PSoup reads it."""
        return self.condition.psoup_sql()

    def duck_sql(self) -> str:
        """As DuckDB reads it: an error is NULL, which is UNKNOWN."""
        return f"TRY({self.condition.duck_sql()})"

    def leaves(self) -> list[Leaf]:
        """Itself."""
        return [self]


@dataclass(frozen=True, slots=True)
class Junction:
    """Two or more predicates joined by AND or OR."""

    word: str
    parts: tuple[Predicate, ...]

    def psoup_sql(self) -> str:
        """As PSoup reads it."""
        return "(" + f" {self.word} ".join(part.psoup_sql() for part in self.parts) + ")"

    def duck_sql(self) -> str:
        """As DuckDB reads it."""
        return "(" + f" {self.word} ".join(part.duck_sql() for part in self.parts) + ")"

    def leaves(self) -> list[Leaf]:
        """The leaves of all parts, and one of its own kind about each of them."""
        below = [leaf for part in self.parts for leaf in part.leaves()]
        return below + [Leaf(self.word.lower(), leaf.about, leaf.condition) for leaf in below]


@dataclass(frozen=True, slots=True)
class Negation:
    """NOT of a predicate."""

    part: Predicate

    def psoup_sql(self) -> str:
        """As PSoup reads it."""
        return f"NOT ({self.part.psoup_sql()})"

    def duck_sql(self) -> str:
        """As DuckDB reads it."""
        return f"(NOT {self.part.duck_sql()})"

    def leaves(self) -> list[Leaf]:
        """The leaves of the part, and `not` about each of them."""
        below = self.part.leaves()
        return below + [Leaf("not", leaf.about, leaf.condition) for leaf in below]


Predicate = Leaf | Junction | Negation


def condition(template: str, *args: Expression) -> Expression:
    """A BOOLEAN expression."""
    return Expression(BOOLEAN, template, args)


# One function a factor kind; `subject` is what is tested. ---------------------------------------------------


def _comparison(make: Maker, subject: Expression, operator: str) -> Expression:
    right = make.constant(subject.type) if make.number(0, 15) else Expression(subject.type, "NULL")
    if make.number(0, 4) == 0:
        return condition(f"{{0}} {operator} {{1}}", right, subject)
    return condition(f"{{0}} {operator} {{1}}", subject, right)


def _between(make: Maker, subject: Expression) -> Expression:
    word = make.pick(("BETWEEN", "NOT BETWEEN"))
    return condition(f"{{0}} {word} {{1}} AND {{2}}", subject, make.constant(subject.type), make.constant(subject.type))


def _in(make: Maker, subject: Expression) -> Expression:
    members = tuple(make.constant(subject.type) for _ in range(make.number(1, 5)))
    if make.number(0, 5) == 0:
        members += (Expression(subject.type, "NULL"),)
    places = ", ".join(f"{{{i + 1}}}" for i in range(len(members)))
    return condition(f"{{0}} {make.pick(('IN', 'NOT IN'))} ({places})", subject, *members)


def _like(make: Maker, subject: Expression, shape: str) -> Expression:
    body = make.pick(("", "a", "ab", "A", "é", "b"))
    word = make.pick(("LIKE", "NOT LIKE"))
    if shape == "like_prefix":
        return condition(f"{{0}} {word} {{1}}", subject, literal(TEXT, body + "%"))
    if shape == "like_escape":
        pattern = make.pick(("a!%%", "%!_%", "!!%", "a!_b", body + "!%"))
        return condition(f"{{0}} {word} {{1}} ESCAPE '!'", subject, literal(TEXT, pattern))
    word = make.pick((word, word.replace("LIKE", "ILIKE")))
    pattern = make.pick((f"%{body}%", f"_{body}", f"{body}_%", f"%{body}", f"_%{body}_", body, "%", "_"))
    return condition(f"{{0}} {word} {{1}}", subject, literal(TEXT, pattern))


def _attribute(make: Maker, subject: Expression) -> Expression:
    others = [c for c in make.scope.columns(subject.type.kind) if c.type == subject.type]
    return condition(f"{{0}} {make.pick(COMPARISONS)} {{1}}", subject, make.pick(others or [subject]))


def _attribute_shifted(make: Maker, subject: Expression) -> Expression:
    others = [c for c in make.scope.columns(subject.type.kind) if c.type == subject.type] or [subject]
    sign = make.pick(("+", "-"))
    template = f"{{0}} {make.pick(COMPARISONS)} {{1}} {sign} {{2}}"
    if subject.type == TIMESTAMP:
        step = Expression(TIMESTAMP, f"INTERVAL '{make.number(0, 200_000)}' SECOND")
    else:
        step = make.small(0, 20) if subject.type == BIGINT else literal(DOUBLE, make.number(0, 40) / 4)
    return condition(template, subject, make.pick(others), step)


def _arithmetic(make: Maker, subject: Expression) -> Expression:
    template = f"({{0}} {make.pick(('+', '-', '*', '%'))} {{1}})"
    right = make.small() if subject.type == BIGINT else make.of(subject.type)
    left = Expression(subject.type, template, (subject, right))
    return condition(f"{{0}} {make.pick(COMPARISONS)} {{1}}", left, make.constant(subject.type))


def _case(make: Maker, subject: Expression) -> Expression:
    form = Form("CASE WHEN {0} THEN {1} ELSE {2} END", ("condition", "same", "same"))
    return condition(
        f"{{0}} {make.pick(COMPARISONS)} {{1}}", make.fill(subject.type, form), make.constant(subject.type)
    )


def _function(make: Maker, subject: Expression) -> Expression:
    return condition(f"{{0}} {make.pick(COMPARISONS)} {{1}}", make.of(subject.type), make.constant(subject.type))


def _cast(make: Maker, subject: Expression, word: str) -> Expression:
    if subject.type == TEXT:
        target = make.pick((BIGINT, DOUBLE))
        left = Expression(target, f"{word}({{0}} AS {target})", (subject,))
        return condition(f"{{0}} {make.pick(COMPARISONS)} {{1}}", left, make.constant(target))
    left = Expression(TEXT, f"{word}({{0}} AS TEXT)", (subject,))
    return condition(f"{{0}} {make.pick(COMPARISONS)} {{1}}", left, make.constant(TEXT))


_EXACT = (
    "CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL WHEN isnan({1}) OR {1} >= 9223372036854775808.0::DOUBLE THEN -1"
    " WHEN {1} < -9223372036854775808.0::DOUBLE THEN 1 WHEN {0} < floor({1})::BIGINT THEN -1"
    " WHEN {0} > floor({1})::BIGINT THEN 1 WHEN {1} > floor({1}) THEN -1 ELSE 0 END"
)
"""SQL that tells whether a BIGINT is below, at or above a DOUBLE. DuckDB itself would compare them as DOUBLEs, and lose
digits.
"""
_PARTNERS: dict[Kind, tuple[DataType, ...]] = {
    Kind.BIGINT: (DOUBLE, decimal(18, 4), decimal(5, 2)),
    Kind.DOUBLE: (BIGINT, decimal(5, 2), decimal(18, 4)),
    Kind.DECIMAL: (BIGINT, DOUBLE, decimal(18, 4), decimal(3, 3)),
    Kind.DATE: (TIMESTAMP,),
    Kind.TIMESTAMP: (DATE,),
}


def _mixed(make: Maker, subject: Expression) -> Expression:
    partner = make.pick(_PARTNERS[subject.type.kind])
    columns = make.scope.columns(partner.kind)
    other = make.pick(columns) if columns and make.number(0, 2) == 0 else make.constant(partner)
    operator = make.pick(COMPARISONS)
    plain = condition(f"{{0}} {operator} {{1}}", subject, other)
    kinds = (subject.type.kind, other.type.kind)
    if kinds == (Kind.BIGINT, Kind.DOUBLE):
        return replace(plain, duck=f"({_EXACT}) {operator} 0")
    if kinds == (Kind.DOUBLE, Kind.BIGINT):
        swapped = _EXACT.replace("{0}", "{2}").replace("{1}", "{0}").replace("{2}", "{1}")
        return replace(plain, duck=f"0 {operator} ({swapped})")
    return plain


def _boolean(make: Maker, subject: Expression) -> Expression:
    if subject.type == BOOLEAN:
        return condition("{0}", subject)
    return make.fill(BOOLEAN, make.pick([form for form in FORMS[Kind.BOOLEAN] if TEXT in form.args]))


ALL_KINDS = STREAMED
_NUMBERS = (Kind.BIGINT, Kind.DOUBLE)
_TEXT = (Kind.TEXT,)
Builder = Callable[[Maker, Expression], Expression]


def _operator(operator: str) -> Builder:
    return lambda make, subject: _comparison(make, subject, operator)


FACTORS: dict[str, tuple[tuple[Kind, ...], Builder]] = {
    **{kind: (ALL_KINDS, _operator(operator)) for operator, kind in OPERATOR_KINDS.items()},
    "between": (ALL_KINDS, _between),
    "in": (ALL_KINDS, _in),
    "is_null": (ALL_KINDS, lambda make, subject: condition("{0} IS NULL", subject)),
    "is_not_null": (ALL_KINDS, lambda make, subject: condition("{0} IS NOT NULL", subject)),
    "like_prefix": (_TEXT, lambda make, subject: _like(make, subject, "like_prefix")),
    "like_general": (_TEXT, lambda make, subject: _like(make, subject, "like_general")),
    "like_escape": (_TEXT, lambda make, subject: _like(make, subject, "like_escape")),
    "attribute": (ALL_KINDS, _attribute),
    "attribute_shifted": ((*_NUMBERS, Kind.TIMESTAMP), _attribute_shifted),
    "arithmetic": (_NUMBERS, _arithmetic),
    "function": (ALL_KINDS, _function),
    "case": (ALL_KINDS, _case),
    "cast": ((Kind.BIGINT, Kind.TEXT, Kind.DATE, Kind.TIMESTAMP), lambda make, subject: _cast(make, subject, "CAST")),
    "try_cast": (
        (Kind.BIGINT, Kind.TEXT, Kind.DATE, Kind.TIMESTAMP),
        lambda make, subject: _cast(make, subject, "TRY_CAST"),
    ),
    "mixed": (tuple(_PARTNERS), _mixed),
    "boolean": ((Kind.BOOLEAN, Kind.TEXT), _boolean),
}
"""Factor kind -> kinds of value it is for, and how to draw one. AND, OR and NOT are counted beside these."""


PLAIN = ("eq", "ne", "in", "in", "between")
"""Factor kinds that are intervals of a column."""


def leaf_of(make: Maker, factor: str, subject: Expression) -> Leaf:
    """A leaf of one factor kind about `subject`."""
    return Leaf(factor, subject.type.kind, FACTORS[factor][1](make, subject))


def draw_leaf(make: Maker) -> Leaf:
    """A leaf of any factor kind that some attribute of the scope allows."""
    subject = make.pick([*make.scope.columns(), TIME])
    if make.number(0, 5) == 5:
        subject = make.of(subject.type)
    allowed = [name for name, (wanted, _) in FACTORS.items() if subject.type.kind in wanted]
    return leaf_of(make, make.pick(allowed), subject)


def draw_plain(make: Maker) -> Predicate:
    """A conjunction of one or two comparisons of columns with constants, for key indexes."""
    leaves = tuple(leaf_of(make, make.pick(PLAIN), make.pick(make.scope.columns())) for _ in range(make.number(1, 2)))
    return leaves[0] if len(leaves) == 1 else Junction("AND", leaves)


def draw_predicate(make: Maker, depth: int = 2) -> Predicate:
    """A WHERE clause with AND, OR and NOT up to `depth` deep."""
    choice = make.number(0, 9) if depth > 0 else 0
    if choice < 4:
        return draw_leaf(make)
    if choice < 6:
        return Negation(draw_predicate(make, depth - 1))
    word = "AND" if choice < 8 else "OR"
    return Junction(word, tuple(draw_predicate(make, depth - 1) for _ in range(make.number(2, 3))))
