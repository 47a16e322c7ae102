"""The quarantine: clauses of one stream that are not in the index, and why; the others are evaluated as always.

    expression raises     once, twice    its clauses have not met these tuples; the next piece tries again
                          three times    all clauses that read it leave the index together, from that piece on
    a process that ended  at a start     the derived attributes of the stream leave (see `EvaluationPlace`)
    by hand               at a start     those of a query; the clause alone if it has none

Their pairs with chunks from then on are uncovered (`psoup.results.gaps`): readers evaluate them row by row. New
clauses that read the expression join them. When the last such clause is gone the expression is forgotten, and may be
tried again. Nothing here evaluates; the Query SteM knows which clause reads what.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from psoup.columns import Array
from psoup.expressions.guarded import Compute, guarded
from psoup.expressions.supplied import shown_name
from psoup.expressions.tree import AttributeRef, Expr, Literal, Now
from psoup.invariants import ensure
from psoup.plan.canonical import expr_text

MOST_RAISES = 3
"""Exceptions of an expression after which its clauses leave the index: a machine may be short of memory once."""

_SHOWN = 300


@dataclass(frozen=True, slots=True)
class EvaluationPlace:
    """Tuples that are about to be evaluated: `rows` of a stream, the first with the ID `first_id`.

    `what`: "arrival", "registration" (new clauses over the open chunk) or "cover" (over closed ones).
    """

    stream_id: int
    what: str
    first_id: int
    rows: int

    def meets(self, other: EvaluationPlace) -> bool:
        """Whether the same tuples may have been evaluated, in the same way."""
        return (
            (self.stream_id, self.what) == (other.stream_id, other.what)
            and self.first_id < other.first_id + other.rows
            and other.first_id < self.first_id + self.rows
        )


Watch = Callable[[EvaluationPlace], bool]
"""Called before an evaluation; False: it must not be done, as it has ended the process before."""


@dataclass(frozen=True, slots=True)
class Precautions:
    """Knowledge of a host before the first event. `watch`: told before anything is evaluated, until it is taken back.

    `compute`: how expressions are evaluated on arrival and when queries are registered; a watched one may take its
    place. `held`: by stream ID, digests of expressions that are out when they come. `by_hand`: IDs of queries that are.
    """

    watch: Watch | None = None
    held: Mapping[int, frozenset[str]] = field(default_factory=dict)
    by_hand: frozenset[int] = frozenset()
    compute: Compute = guarded


@dataclass(frozen=True, slots=True)
class LeftIndex:
    """News for the operator: `clauses` of a stream have left the index. `expression`: its shape, empty for none.

    `query_ids`: some of the queries. Without clauses: none reads the expression any more, so it may be tried again.
    """

    stream: str
    expression: str
    why: str
    clauses: int
    query_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason why clauses are out. `text`: an expression in SQL without its constants, empty for a clause alone.

    `digest` names an expression across processes. `kept`: it must be out at the next start as well.
    """

    text: str
    why: str
    digest: str = ""
    kept: bool = False

    def __str__(self) -> str:
        return f"{self.text}: {self.why}" if self.text else self.why


@dataclass(frozen=True, slots=True)
class Outside:
    """The quarantine as readers see it: reasons by attribute ID, and, for clauses out by themselves, by SQC ID.

    `ids`: int64[k], the SQC IDs of all clauses that are out, ascending.
    """

    attributes: Mapping[int, Reason]
    clauses: Mapping[int, Reason]
    ids: Array

    def reasons(self, sqc_id: int, attributes: Sequence[int]) -> list[Reason]:
        """The reasons why a clause is not in the index; empty if it is."""
        reasons = [self.attributes[a] for a in attributes if a in self.attributes] if self.attributes else []
        return [*reasons, self.clauses[sqc_id]] if sqc_id in self.clauses else reasons


NO_PRECAUTIONS = Precautions()

NONE_OUT = Outside({}, {}, np.zeros(0, np.int64))


class Quarantine:
    """The clauses that are out. All methods are the writer's, except `outside`, whose value never changes."""

    def __init__(self) -> None:
        self._raised: dict[int, int] = {}
        self._attributes: dict[int, Reason] = {}
        self._alone: dict[int, Reason] = {}
        self.ids: Array = np.zeros(0, np.int64)
        self.slots: Array = np.zeros(0, np.int64)
        """The slots of the clauses that are out, by ascending SQC ID."""
        self.outside = Outside({}, {}, self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def counts(self, attribute: int) -> bool:
        """Count that an expression has raised; returns whether that was once too often."""
        self._raised[attribute] = self._raised.get(attribute, 0) + 1
        return self._raised[attribute] >= MOST_RAISES and attribute not in self._attributes

    def put_out(self, attribute: int, reason: Reason) -> None:
        """Note that no clause that reads the attribute is in the index from now on."""
        self._attributes[attribute] = reason
        self._show()

    def holds(self, attributes: Sequence[int]) -> bool:
        """Whether one of the attributes is out."""
        return bool(self._attributes) and any(a in self._attributes for a in attributes)

    def take(self, ids: Array, slots: Array, alone: Reason | None = None) -> None:
        """Add clauses (int64[k], none of them here); `alone`: the reason if it is not an attribute. O(n + k)."""
        if not len(ids):
            return
        if alone is not None:
            self._alone.update(dict.fromkeys(ids.tolist(), alone))
        both = np.concatenate([self.ids, ids])
        order = np.argsort(both)
        self.ids, self.slots = both[order], np.concatenate([self.slots, slots])[order]
        self._show()

    def drop(self, sqc_ids: Array) -> Array:
        """Remove those clauses of `sqc_ids` (int64[k]) that are here; returns the others' places in it. O(n + k)."""
        here = np.isin(sqc_ids, self.ids)
        if here.any():
            stay = ~np.isin(self.ids, sqc_ids)
            self.ids, self.slots = self.ids[stay], self.slots[stay]
            for sqc_id in [*self._alone]:
                if sqc_id in sqc_ids:
                    del self._alone[sqc_id]
            self._show()
        return np.flatnonzero(~here)

    def forget(self, attribute: int) -> Reason | None:
        """Forget an attribute that no clause uses any more; returns why it was out, or None if it was not."""
        self._raised.pop(attribute, None)
        reason = self._attributes.pop(attribute, None)
        if reason is not None:
            self._show()
        return reason

    def among(self, first: int, before: int) -> Array:
        """SQC IDs in [first, before) of clauses that are out, int64, ascending."""
        low, high = np.searchsorted(self.ids, (first, before))
        ids: Array = self.ids[low:high]
        return ids

    def _show(self) -> None:
        self.outside = Outside(dict(self._attributes), dict(self._alone), self.ids)

    def check(self) -> None:
        """Check that clauses are named once, in order, and that those out alone are among them."""
        ids, slots = self.ids, self.slots
        named = (np.diff(ids) > 0).all() and len(ids) == len(slots)
        ensure(named, self, "clauses that are out are not named once, in order", ids=ids, slots=slots)
        ensure(len(np.unique(slots)) == len(slots), self, "a slot is out twice", slots=slots)
        alone = [*self._alone]
        ensure(
            set(alone) <= set(ids.tolist()),
            self,
            "a clause is out alone, and not among those out",
            ids=ids,
            alone=alone,
        )
        shown = (self.outside.attributes, self.outside.clauses) == (self._attributes, self._alone)
        ensure(shown and self.outside.ids is ids, self, "readers see something else", ids=ids, shown=self.outside.ids)


def reason_for(expr: Expr, why: str, *, kept: bool = False) -> Reason:
    """The reason why an expression is out."""
    return Reason(shape_of(expr), why, digest_of(expr), kept)


def digest_of(expr: Expr) -> str:
    """A name for an expression, the same in every process."""
    return hashlib.blake2b(expr_text(expr).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def shape_of(expr: Expr) -> str:
    """An expression for a log: functions and columns, `?` for its constants, which may be secret or long."""
    text = _shape(expr)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _shape(expr: Expr) -> str:
    if isinstance(expr, Literal):
        return "?"
    if isinstance(expr, AttributeRef):
        return expr.name
    return "now()" if isinstance(expr, Now) else f"{shown_name(expr.name)}({', '.join(map(_shape, expr.args))})"
