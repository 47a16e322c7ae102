"""Random composed statements, each as text for PSoup and for DuckDB.

Select                  a SELECT: FROM, conditions, groups, window functions.
├── Step                an item of FROM with its join (`composed_items`).
├── Exists, Member, Compared     subselects in WHERE.
└── Over, Measure       window functions and aggregates.
SetOperation            UNION, INTERSECT, EXCEPT of two statements.
With                    items, and a statement that uses them.

For DuckDB every statement gets a column `_pos`: the position of the row in the order that PSoup promises. DuckDB's own
operators decide everything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from psoup_testing.histories.composed_items import Column, Derived, Named, Spans, Step


@dataclass(frozen=True)
class Exists:
    """[NOT] EXISTS."""

    query: Select
    negated: bool

    def text(self, spans: Spans | None) -> str:
        """The condition."""
        return f"{'NOT ' * self.negated}EXISTS ({self.query.inner(spans)})"


@dataclass(frozen=True)
class Member:
    """x [NOT] IN (SELECT …)."""

    value: str
    query: Select | SetOperation
    negated: bool

    def text(self, spans: Spans | None) -> str:
        """The condition."""
        if isinstance(self.query, Select):
            inside = self.query.inner(spans)
        else:
            inside = self.query.text() if spans is None else f"SELECT o0 FROM ({self.query.ranked(spans)})"
        return f"{self.value} {'NOT ' * self.negated}IN ({inside})"


@dataclass(frozen=True)
class Compared:
    """A comparison with a scalar subselect over an aggregate."""

    value: str
    operator: str
    query: Select

    def text(self, spans: Spans | None) -> str:
        """The condition."""
        return f"{self.value} {self.operator} ({self.query.inner(spans)})"


Condition = str | Exists | Member | Compared


@dataclass(frozen=True)
class Over:
    """A window function. `ties`: whether rows that are equal by `order` must be told apart by their own order."""

    call: str
    partition: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    preceding: int | None = None
    ties: bool = True

    def text(self, places: Sequence[str]) -> str:
        """The function; `places`: the order of the rows, for DuckDB."""
        parts = [f"PARTITION BY {', '.join(self.partition)}"] if self.partition else []
        rows = [*self.order, *(places if self.ties else ())]
        if places:
            rows = [key if "NULLS" in key else f"{key} NULLS LAST" for key in rows]
        parts += [f"ORDER BY {', '.join(rows)}"] if rows else []
        parts += [] if self.preceding is None else [f"ROWS {self.preceding} PRECEDING"]
        if places and self.preceding is None and self.call.startswith(("first_value", "last_value")):
            parts.append("ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING")
        return f"{self.call} OVER ({' '.join(parts)})"


@dataclass(frozen=True)
class Measure:
    """An aggregate in SELECT. `ordered`: whether it goes by the order of the rows."""

    call: str
    condition: str = ""
    ordered: bool = False
    cast: str = ""

    def text(self, places: Sequence[str]) -> str:
        """The aggregate; `places`: the order of the rows, for DuckDB."""
        text = self.call
        if places and self.ordered:
            text = f"{text.removesuffix(')')} ORDER BY {', '.join(f'{place} NULLS LAST' for place in places)})"
        text += f" FILTER (WHERE {self.condition})" if self.condition else ""
        return f"CAST({text} AS {self.cast})" if places and self.cast else text


@dataclass(frozen=True)
class Scalar:
    """A scalar subselect in SELECT."""

    query: Select

    def text(self, spans: Spans | None) -> str:
        """The subselect."""
        return f"({self.query.inner(spans)})"


Output = str | Over | Measure | Scalar


@dataclass(frozen=True)
class Select:
    """A SELECT. `groups`: the number of outputs that GROUP BY names; None without aggregates."""

    steps: tuple[Step, ...]
    outputs: tuple[Output, ...]
    kinds: tuple[str, ...]
    where: tuple[Condition, ...] = ()
    groups: int | None = None
    having: int = 0
    distinct: bool = False
    distinct_on: tuple[str, ...] = ()
    qualify: tuple[Over, str] | None = None
    keys: tuple[str, ...] = ()
    limit: int | None = None
    skip: int = 0
    prefix: str = "o"

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [f"{self.prefix}{place}" for place in range(len(self.outputs))]

    @property
    def columns(self) -> tuple[Column, ...]:
        """Names and kinds of the columns."""
        return tuple(zip(self.names, self.kinds, strict=True))

    @property
    def places(self) -> list[str]:
        """The order of the rows, as columns of DuckDB's tables."""
        return [f"{item.alias}._pos" for step in self.steps for item in step.items]

    def streams(self) -> Iterator[Named]:
        """Every stream that is named, FROM before WHERE."""
        for step in [inner for whole in self.steps for inner in whole.steps]:
            if isinstance(step.item, Named):
                yield step.item
            elif isinstance(step.item, Derived):
                yield from step.item.statement.streams()
        for part in (*self.outputs, *self.where):
            if isinstance(part, Scalar | Exists | Member | Compared):
                yield from part.query.streams()

    def _shown(self, spans: Spans | None) -> list[str]:
        places, texts = self.places if spans is not None else (), list[str]()
        for output in self.outputs:
            if isinstance(output, Scalar):
                texts.append(output.text(spans))
            else:
                texts.append(output if isinstance(output, str) else output.text(places))
        return [f"{text} AS {name}" for text, name in zip(texts, self.names, strict=True)]

    def _origin(self, spans: Spans | None) -> str:
        """FROM and WHERE."""
        text = "FROM" + "".join(step.text(spans) for step in self.steps)
        conditions = [c if isinstance(c, str) else c.text(spans) for c in self.where]
        return text + (f" WHERE {' AND '.join(conditions)}" if conditions else "")

    def _grouped(self) -> str:
        keys = [str(place + 1) for place in range(self.groups or 0)]
        text = f" GROUP BY {', '.join(keys)}" if keys else ""
        return text + (f" HAVING count(*) >= {self.having}" if self.having else "")

    def inner(self, spans: Spans | None) -> str:
        """The statement as a subselect of WHERE, where no order matters."""
        shown = self._shown(spans)
        return f"SELECT {', '.join(shown)} {self._origin(spans)}{self._grouped()}"

    def text(self) -> str:
        """The statement for PSoup."""
        word = "DISTINCT " if self.distinct else ""
        word += f"DISTINCT ON ({', '.join(self.distinct_on)}) " if self.distinct_on else ""
        text = f"SELECT {word}{', '.join(self._shown(None))} {self._origin(None)}{self._grouped()}"
        if self.qualify is not None:
            text += f" QUALIFY {self.qualify[0].text(())} {self.qualify[1]}"
        return text + self._end()

    def _end(self) -> str:
        text = f" ORDER BY {', '.join(self.keys)}" if self.keys else ""
        text += "" if self.limit is None else f" LIMIT {self.limit}"
        return text + (f" OFFSET {self.skip}" if self.skip else "")

    def ranked(self, spans: Spans) -> str:
        """The statement for DuckDB, with `_pos`."""
        places, names = self.places, ", ".join(self.names)
        shown = self._shown(spans)
        order = [f"{name} NULLS LAST" for name in self.names[: self.groups]] if self.groups is not None else []
        if self.groups is None:
            shown += [f"{place} AS p{number}" for number, place in enumerate(places)]
            order = [f"p{number} NULLS LAST" for number in range(len(places))]
        sort = []
        for number, key in enumerate(self.keys):
            word, *ways = key.split()
            if "." in word:
                shown.append(f"{word} AS q{number}")
            ways = ways if "NULLS" in ways else [*ways, "NULLS LAST"]
            sort.append(" ".join([f"q{number}" if "." in word else word, *ways]))
        shown += [f"{key} AS h{number}" for number, key in enumerate(self.distinct_on)]
        inner = f"SELECT {', '.join(shown)} {self._origin(spans)}{self._grouped()}"
        if self.qualify is not None:
            inner += f" QUALIFY {self.qualify[0].text(places)} {self.qualify[1]}"
        unique = names if self.distinct else ", ".join(f"h{number}" for number in range(len(self.distinct_on)))
        if unique:
            by = ", ".join([*(sort if self.distinct_on else ()), *order])
            inner = f"SELECT * FROM ({inner}) QUALIFY row_number() OVER (PARTITION BY {unique} ORDER BY {by}) = 1"
        return ended(f"SELECT {names}, {position([*sort, *order])} FROM ({inner})", self.limit, self.skip)


@dataclass(frozen=True)
class SetOperation:
    """UNION, INTERSECT or EXCEPT. `keys` are of the names of the first SELECT."""

    left: Select | SetOperation
    right: Select | SetOperation
    operator: str
    all: bool
    keys: tuple[str, ...] = ()
    limit: int | None = None
    skip: int = 0
    bracketed: bool = False

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return self.left.names

    @property
    def columns(self) -> tuple[Column, ...]:
        """Names and kinds of the columns."""
        pairs = zip(self.left.columns, self.right.columns, strict=True)
        return tuple((name, unified(kind, other)) for (name, kind), (_, other) in pairs)

    def streams(self) -> Iterator[Named]:
        """Every stream that is named, FROM before WHERE."""
        yield from self.left.streams()
        yield from self.right.streams()

    def text(self) -> str:
        """The statement for PSoup."""
        word = f"{self.operator}{' ALL' * self.all}"
        left, right = (self._operand(side, after) for after, side in enumerate((self.left, self.right)))
        text = f"{left} {word} {right}"
        text += f" ORDER BY {', '.join(self.keys)}" if self.keys else ""
        text += "" if self.limit is None else f" LIMIT {self.limit}"
        return text + (f" OFFSET {self.skip}" if self.skip else "")

    def _operand(self, side: Select | SetOperation, after: int) -> str:
        """An operand, in brackets where the rules of precedence would divide it otherwise."""
        if isinstance(side, Select):
            ends = bool(side.keys or side.limit is not None or side.skip)
            return f"({side.text()})" if ends or self.bracketed else side.text()
        binds = {"INTERSECT": 1}
        tight, inner = binds.get(self.operator, 0), binds.get(side.operator, 0)
        apart = inner > tight or (inner == tight and not after)
        return side.text() if apart and not (side.keys or side.limit is not None) else f"({side.text()})"

    def ranked(self, spans: Spans) -> str:
        """The statement for DuckDB, with `_pos`: its own UNION ALL unifies types, and counts of equal rows decide."""
        sides = [f"SELECT {place} AS side, * FROM ({side.ranked(spans)})" for place, side in enumerate(self._sides)]
        names = ", ".join(self.names)
        both = f"SELECT * FROM ({' UNION ALL '.join(sides)}) AS u(side, {names}, p)"
        equal = f"PARTITION BY {names}"
        counted = (
            f"SELECT *, row_number() OVER ({equal} ORDER BY side, p) AS nth,"
            f" count(*) FILTER (side = 0) OVER ({equal}) AS lefts,"
            f" count(*) FILTER (side = 1) OVER ({equal}) AS rights FROM ({both})"
        )
        condition = _KEPT[self.operator, self.all]
        keys = [key if "NULLS" in key else f"{key} NULLS LAST" for key in self.keys]
        text = f"SELECT {names}, {position([*keys, 'side', 'p'])} FROM ({counted}) WHERE {condition}"
        return ended(text, self.limit, self.skip)

    @property
    def limited(self) -> bool:
        """Whether LIMIT or OFFSET cut its rows, or the rows of a set operation in it."""
        inside = [side.limited for side in self._sides if isinstance(side, SetOperation)]
        return self.limit is not None or self.skip > 0 or any(inside)

    def bag(self, spans: Spans) -> str:
        """The rows by DuckDB's own operator, in any order."""
        sides = [side.bag(spans) if isinstance(side, SetOperation) else _unordered(side, spans) for side in self._sides]
        return f"({sides[0]}) {self.operator}{' ALL' * self.all} ({sides[1]})"

    @property
    def _sides(self) -> tuple[Select | SetOperation, Select | SetOperation]:
        return self.left, self.right


def _unordered(select: Select, spans: Spans) -> str:
    return f"SELECT {', '.join(select.names)} FROM ({select.ranked(spans)})"


_KEPT = {
    ("UNION", True): "TRUE",
    ("UNION", False): "nth = 1",
    ("INTERSECT", True): "side = 0 AND nth <= rights",
    ("INTERSECT", False): "nth = 1 AND side = 0 AND rights > 0",
    ("EXCEPT", True): "side = 0 AND nth <= lefts - rights",
    ("EXCEPT", False): "nth = 1 AND side = 0 AND rights = 0",
}


@dataclass(frozen=True)
class With:
    """A statement after WITH. Its items are `Derived` with a name, where they are used."""

    items: tuple[Derived, ...]
    body: Select | SetOperation

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return self.body.names

    @property
    def columns(self) -> tuple[Column, ...]:
        """Names and kinds of the columns."""
        return self.body.columns

    def streams(self) -> Iterator[Named]:
        """Every stream that is named, once for each use of an item."""
        yield from self.body.streams()

    def text(self) -> str:
        """The statement for PSoup."""
        items = ", ".join(f"{item.item} AS ({item.statement.text()})" for item in self.items)
        return f"WITH {items} {self.body.text()}"

    def ranked(self, spans: Spans) -> str:
        """The statement for DuckDB, with `_pos`: items are written out where they are used."""
        return self.body.ranked(spans)


Statement = Select | SetOperation | With


def position(keys: Sequence[str]) -> str:
    """The column `_pos`."""
    order = f"ORDER BY {', '.join(keys)}" if keys else ""
    return f"row_number() OVER ({order}) AS _pos"


def ended(text: str, limit: int | None, skip: int) -> str:
    """The rows of a ranked statement that LIMIT and OFFSET leave."""
    if limit is None and not skip:
        return text
    end = "" if limit is None else f" AND _pos <= {skip + limit}"
    return f"SELECT * FROM ({text}) WHERE _pos > {skip}{end}"


def unified(kind: str, other: str) -> str:
    """The kind of a column of a set operation."""
    return kind if kind == other else "double" if "double" in (kind, other) else "decimal"
