"""Joins AS OF: each row of a stream meets the version of a table that held at the row's own time.

    orders o JOIN prices p AS OF o ON p.item = o.item AND p.region = o.region AND p.cents > 5
                            │         └── all key columns of the table ────┘    └ tested on the version
                            └─ a stream before the JOIN

All columns of the table's primary key must be equal to a value of the left, or to a constant. So a row meets at most
one version.

EXISTS (SELECT 1 FROM prices p AS OF o WHERE p.item = o.item) and IN are semi-joins AS OF. NOT EXISTS is an anti-join.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from psoup.errors import SqlError
from psoup.expressions.tree import AttributeRef, Call, Expr, sources_of
from psoup.invariants import ensure
from psoup.model import TIME_COLUMN, Kind
from psoup.plan.nodes import JoinKind, Source
from psoup.sql.composed.composition import Composition
from psoup.sql.composed.condition_places import Condition, Kept, Part, Tree
from psoup.sql.composed.scope import Item, Scope
from psoup.sql.composed.shapes import as_of, join_words
from psoup.sql.join_conditions import conjuncts
from psoup.sql.names import listed
from psoup.sql.parser.compositions import COMMA
from psoup.sql.source import StatementText, nearest

_KINDS = {
    None: JoinKind.AS_OF,
    JoinKind.LEFT: JoinKind.AS_OF_LEFT,
    JoinKind.SEMI: JoinKind.AS_OF_SEMI,
    JoinKind.ANTI: JoinKind.AS_OF_ANTI,
}
_FORM = "write FROM s JOIN t AS OF s ON t.k = s.k"


def refuse_first(source: StatementText, table: exp.Expr) -> None:
    """Refuse AS OF of an item of FROM that no JOIN stands before. Raises SqlError."""
    name = as_of(table)
    if name is not None:
        words = f"{table.name[:128]} AS OF {name.name[:128]}"
        raise source.error(f"{words} needs a JOIN before it, and the stream before that", table, hint=_FORM)


def as_of_join(
    composition: Composition,
    scope: Scope,
    left: Tree,
    right: Tree,
    join: exp.Join,
    kind: JoinKind | None,
    conditions: list[Condition],
) -> Kept:
    """The tree of `left` and a JOIN with AS OF. `scope`: has the items before the JOIN. Raises SqlError."""
    source, name = composition.source, as_of(join.this)
    assert name is not None
    if (alias := join.this.args.get("alias")) is not None and name is not (alias.args.get("as_of") or name):
        raise source.error(f"{alias.name[:128]} has one AS OF", alias.args["as_of"], hint=_FORM)
    if kind not in _KINDS or join.meta.get(COMMA) or join_words(join) == "CROSS":
        words = f"{join_words(join)} JOIN".strip()
        raise source.unsupported(f"{words} with AS OF", join, hint="write JOIN or LEFT JOIN t AS OF s ON t.k = s.k")
    leaf = right.leaf if isinstance(right, Part) and isinstance(join.this, exp.Table) else None
    if not isinstance(right, Part) or not isinstance(leaf, Source) or leaf.spec.table is None:
        raise _no_table(source, join.this)
    time = _time_of(source, scope, name, left)
    _check_key(source, leaf.spec.primary_key, right, join.this, conditions, join)
    right.leaf = composition.drafts[leaf.place].leaf = replace(leaf, as_of=time.source)
    return Kept(left, right, _KINDS[kind], conditions, time=time)


def existing_as_of(
    composition: Composition,
    scope: Scope,
    left: Tree,
    right: Tree,
    select: exp.Expr,
    kind: JoinKind,
    conditions: list[Condition],
) -> Kept | None:
    """The tree of `left` and a subselect of EXISTS or IN over one table AS OF a stream. None for other subselects.

    `scope`: the scope around the subselect. `kind`: SEMI or ANTI. Raises SqlError.
    """
    origin, source = select.args.get("from_"), composition.source
    name = None if origin is None else as_of(origin.this)
    if origin is None or name is None:
        return None
    leaf = right.leaf if isinstance(right, Part) else None
    if not isinstance(right, Part) or not isinstance(leaf, Source) or leaf.spec.table is None:
        raise _no_table(source, origin.this)
    if kind not in _KINDS:
        hint = "NOT EXISTS (SELECT 1 FROM t AS OF s WHERE t.k = s.k) keeps the rows without a version"
        raise source.unsupported("NOT IN with AS OF", origin.this, hint=hint)
    if any(not condition.places <= left.places | right.places for condition in conditions):
        hint = "read the table and the SELECT around it only"
        raise source.unsupported("AS OF in a subselect that reads a source two levels up", origin.this, hint=hint)
    time = _time_of(source, scope, name, left)
    _check_key(source, leaf.spec.primary_key, right, origin.this, conditions, origin.this)
    right.leaf = composition.drafts[leaf.place].leaf = replace(leaf, as_of=time.source)
    return Kept(left, right, _KINDS[kind], conditions, time=time)


def _no_table(source: StatementText, item: exp.Expr) -> SqlError:
    return source.error(
        f"{item.alias_or_name[:128]!r} is not a table, and AS OF needs one",
        item,
        hint="a stream has no versions; ASOF JOIN gives the closest tuple: ON a.k = b.k AND a.t >= b.t",
        reason="AS_OF_WITHOUT_TABLE",
    )


def _time_of(source: StatementText, scope: Scope, name: exp.Expr, left: Tree) -> AttributeRef:
    """The time of the stream that AS OF names. Raises SqlError."""
    item = next((item for item in scope.items if item.alias.lower() == name.name.lower()), None)
    if item is None:
        names = [item.alias for item in scope.items]
        raise source.error(
            f"AS OF {name.name[:128]}: no source before the JOIN has this name; they are called {', '.join(names)}",
            name,
            hint=nearest(name.name, names) or _FORM,
            reason="UNKNOWN_SOURCE",
        )
    if item.spec is None or item.spec.table is not None:
        raise _no_stream(source, item, name)
    time = item.pseudo(TIME_COLUMN)
    assert isinstance(time, AttributeRef)
    ensure(time.source in left.places, "as_of", "a source before the JOIN is not on its left", source=time.source)
    return time


def _no_stream(source: StatementText, item: Item, name: exp.Expr) -> SqlError:
    kind = "a subselect" if item.spec is None else "a table"
    return source.error(
        f"AS OF {name.name[:128]}: it is {kind}, and AS OF needs a stream, whose tuples have a time",
        name,
        hint="join the table AS OF a stream of the same FROM",
        reason="AS_OF_WITHOUT_STREAM",
    )


def _check_key(
    source: StatementText,
    key: Sequence[str],
    right: Part,
    item: exp.Expr,
    conditions: Sequence[Condition],
    at: exp.Expr,
) -> None:
    """Refuse a join AS OF whose conditions do not give each column of the table's key a value.

    `item`: the table in FROM. `at`: the node that the error shows.
    """
    place = right.leaf.place
    given = set[str]()
    for condition in conditions:
        for part in conjuncts(condition.expr):
            if isinstance(part, Call) and part.name == "eq":
                given |= {column.name for column in _given(part.args, place)}
    missing = [name for name in key if name not in given]
    if missing:
        table = item.alias_or_name
        name = as_of(item)
        stream, place_of = "s" if name is None else name.name, "ON" if isinstance(at, exp.Join) else "WHERE"
        equalities = " AND ".join(f"{table}.{column} = {stream}.{column}" for column in key)
        raise source.error(
            f"{table[:128]} AS OF {stream[:128]} needs the whole primary key in {place_of}; {listed(missing)} has no"
            " equality",
            at,
            hint=f"write {place_of} {equalities[:256]}; each is a bare column, equal to a value of its type",
            reason="AS_OF_WITHOUT_KEY",
        )


def _given(operands: Sequence[Expr], place: int) -> list[AttributeRef]:
    """The column of the table at `place` that an equality gives a value, without a change of the column's type."""
    columns = list[AttributeRef]()
    for column, value in (operands, operands[::-1]):
        if isinstance(column, AttributeRef) and column.source == place and place not in sources_of(value):
            exact = value.type.kind is column.type.kind or Kind.DOUBLE not in (value.type.kind, column.type.kind)
            columns += [column] if exact and column.index >= 0 else []
    return columns
