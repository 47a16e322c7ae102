"""The quarantine: clauses of one stream that were taken out of the index, with the reasons.

    expression raises     once, twice    its clauses have not met these tuples; the next piece tries again
                          three times    all clauses that read it leave the index together, from that piece on
    a process that ended  at a start     the derived attributes of the stream leave (see `EvaluationPlace`)
    by hand               at a start     the expressions of a query; the clause alone if it has none

Their matches in later chunks are uncovered (`psoup.results.gaps`): readers evaluate them row by row. New clauses that
read the expression join the quarantine. After the last such clause is dropped the expression is removed, and may be
tried again. All other clauses are evaluated as before. Nothing here evaluates expressions; the Query SteM knows the
readers of each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from psoup.expressions.error_guard import Compute, guarded
from psoup.expressions.supplied_functions import shown_name
from psoup.expressions.tree import AttributeRef, Expr, Literal, Now
from psoup.invariants import ensure
from psoup.plan.canonical import expr_text
from psoup.values.columns import Array

MOST_RAISES = 3
"""Exceptions of an expression after which its clauses leave the index; a machine may be short of memory once."""

_SHOWN = 300
"""The most characters of an expression in a log."""


@dataclass(frozen=True, slots=True)
class EvaluationPlace:
    """Tuples that are about to be evaluated: `rows` of a stream, the first with the ID `first_id`.

    `what`: "arrival", "registration" (new clauses over the open chunk) or "cover" (over closed chunks).
    """

    stream_id: int
    what: str
    first_id: int
    rows: int

    def meets(self, other: EvaluationPlace) -> bool:
        """Whether both may have evaluated a common tuple, in the same way."""
        return (
            (self.stream_id, self.what) == (other.stream_id, other.what)
            and self.first_id < other.first_id + other.rows
            and other.first_id < self.first_id + self.rows
        )


Watch = Callable[[EvaluationPlace], bool]
"""Called before an evaluation; False forbids it, as it has ended the process before."""


@dataclass(frozen=True, slots=True)
class Precautions:
    """Knowledge of a host before the first event. `watch`: called before every evaluation, until it is replaced.

    `compute`: evaluates expressions on arrival and at registration; a watched one may replace it. `held`: by stream ID,
    the digests of expressions that start in quarantine. `by_hand`: IDs of queries that an operator has put into
    quarantine.
    """

    watch: Watch | None = None
    held: Mapping[int, frozenset[str]] = field(default_factory=dict)
    by_hand: frozenset[int] = frozenset()
    compute: Compute = guarded


@dataclass(frozen=True, slots=True)
class LeftIndex:
    """A message for the operator: `clauses` of a stream have left the index. `expression`: its shape, empty for none.

    `query_ids`: some of the queries. No `clauses`: no clause reads the expression any more, so it may be tried again.
    """

    stream: str
    expression: str
    why: str
    clauses: int
    query_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason for a quarantine. `text`: an expression in SQL without its constants, empty for a single clause.

    `digest` identifies an expression across processes. `kept`: whether it must be in quarantine at the next start too.
    """

    text: str
    why: str
    digest: str = ""
    kept: bool = False

    def __str__(self) -> str:
        return f"{self.text}: {self.why}" if self.text else self.why


@dataclass(frozen=True, slots=True)
class Outside:
    """The quarantine as readers see it: reasons by attribute ID, and by SQC ID for single clauses.

    `ids`: int64[k], the SQC IDs of all clauses in quarantine, ascending.
    """

    attributes: Mapping[int, Reason]
    clauses: Mapping[int, Reason]
    ids: Array

    def reasons(self, sqc_id: int, attributes: Sequence[int]) -> list[Reason]:
        """The reasons why a clause is not in the index; empty if it is in the index."""
        reasons = [self.attributes[a] for a in attributes if a in self.attributes] if self.attributes else []
        return [*reasons, self.clauses[sqc_id]] if sqc_id in self.clauses else reasons


NO_PRECAUTIONS = Precautions()

NONE_OUT = Outside({}, {}, np.zeros(0, np.int64))


class Quarantine:
    """The clauses in quarantine. Only the writer may call it, except for `outside`, whose value never changes."""

    def __init__(self) -> None:
        self._raised: dict[int, int] = {}
        self._attributes: dict[int, Reason] = {}
        self._alone: dict[int, Reason] = {}
        self.ids: Array = np.zeros(0, np.int64)
        self.slots: Array = np.zeros(0, np.int64)
        """The slots of the clauses in quarantine, by ascending SQC ID."""
        self.outside = Outside({}, {}, self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def counts(self, attribute: int) -> bool:
        """Count an exception of an expression; returns whether the limit is reached."""
        self._raised[attribute] = self._raised.get(attribute, 0) + 1
        return self._raised[attribute] >= MOST_RAISES and attribute not in self._attributes

    def put_out(self, attribute: int, reason: Reason) -> None:
        """Record that all clauses that read the attribute are out of the index from now on."""
        self._attributes[attribute] = reason
        self._show()

    def holds(self, attributes: Sequence[int]) -> bool:
        """Whether one of the attributes is in quarantine."""
        return bool(self._attributes) and any(a in self._attributes for a in attributes)

    def take(self, ids: Array, slots: Array, alone: Reason | None = None) -> None:
        """Add clauses (int64[k], not yet here); `alone`: the reason for these single clauses, if it is no attribute.
        O(n + k)."""
        if not len(ids):
            return
        if alone is not None:
            self._alone.update(dict.fromkeys(ids.tolist(), alone))
        both = np.concatenate([self.ids, ids])
        order = np.argsort(both)
        self.ids, self.slots = both[order], np.concatenate([self.slots, slots])[order]
        self._show()

    def drop(self, sqc_ids: Array) -> Array:
        """Remove those clauses of `sqc_ids` (int64[k]) that are here; returns the places of the other IDs. O(n + k)."""
        here = np.isin(sqc_ids, self.ids)
        if here.any():
            stay = ~np.isin(self.ids, sqc_ids)
            self.ids = self.ids[stay]
            self.slots = self.slots[stay]
            for sqc_id in [*self._alone]:
                if sqc_id in sqc_ids:
                    del self._alone[sqc_id]
            self._show()
        return np.flatnonzero(~here)

    def forget(self, attribute: int) -> Reason | None:
        """Remove an attribute that no clause uses any more; returns the reason of its quarantine, or None."""
        self._raised.pop(attribute, None)
        reason = self._attributes.pop(attribute, None)
        if reason is not None:
            self._show()
        return reason

    def among(self, first: int, before: int) -> Array:
        """SQC IDs in [first, before) of clauses in quarantine, int64, ascending."""
        low, high = np.searchsorted(self.ids, (first, before))
        ids: Array = self.ids[low:high]
        return ids

    def _show(self) -> None:
        self.outside = Outside(dict(self._attributes), dict(self._alone), self.ids)

    def check(self) -> None:
        """Check that clauses are listed once, in order, and that single clauses are listed too."""
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


def reason_for(expr: Expr, why: str, *, persistent: bool = False) -> Reason:
    """The reason for the quarantine of an expression."""
    return Reason(shape_of(expr), why, digest_of(expr), persistent)


def digest_of(expr: Expr) -> str:
    """A hash of an expression, the same in every process."""
    return hashlib.blake2b(expr_text(expr).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def shape_of(expr: Expr) -> str:
    """An expression for a log: functions and columns, `?` for constants, which may be secret or long."""
    text = _shape(expr)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _shape(expr: Expr) -> str:
    if isinstance(expr, Literal):
        return "?"
    if isinstance(expr, AttributeRef):
        return expr.name
    return "now()" if isinstance(expr, Now) else f"{shown_name(expr.name)}({', '.join(map(_shape, expr.args))})"
