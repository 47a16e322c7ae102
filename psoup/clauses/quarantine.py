"""The quarantine: clauses of one stream that were taken out of the index, with the reasons.

    expression raises     once, twice    its clauses do not cover these tuples; the next piece tries again
                          three times    all clauses that read it leave the index, from that piece on
    a process that ended  at a start     the derived attributes of the stream leave (see `EvaluationPlace`)
    by hand               at a start     the expressions of a query; the clause alone if it has none

These clauses do not cover later chunks (`psoup.results.gaps`), so readers evaluate them row by row. New clauses that
read the expression go to the quarantine, too. After the last such clause is removed, the expression leaves the
quarantine, and a later clause may try it again. All other clauses stay in the index. This module evaluates no
expressions; the Query SteM knows the clauses that read an expression.
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
"""The number of exceptions of an expression at which its clauses leave the index. A single one may be a passing lack of
memory."""

_SHOWN = 300
"""The most characters of an expression in a log."""


@dataclass(frozen=True, slots=True)
class EvaluationPlace:
    """The tuples of a coming evaluation: `rows` tuples of a stream from the ID `first_id` on.

    `what`: "arrival", "registration" (new clauses over the open chunk) or "cover" (clauses over closed chunks).
    """

    stream_id: int
    what: str
    first_id: int
    rows: int

    def meets(self, other: EvaluationPlace) -> bool:
        """Whether both evaluations are of the same kind, and have a tuple in common."""
        return (
            (self.stream_id, self.what) == (other.stream_id, other.what)
            and self.first_id < other.first_id + other.rows
            and other.first_id < self.first_id + self.rows
        )


Watch = Callable[[EvaluationPlace], bool]
"""A function of the host that the engine calls before an evaluation. It returns False to forbid the evaluation, as the
same evaluation ended the process before."""


@dataclass(frozen=True, slots=True)
class Precautions:
    """The host's knowledge of dangerous evaluations, which it gives to the engine before the first event.

    `watch`: is called before each evaluation. `held`: digests of expressions that start in quarantine, by stream ID.
    `by_hand`: IDs of queries that an operator has put into quarantine. `compute`: the function that evaluates
    expressions on arrival and at registration; the host may wrap it.
    """

    watch: Watch | None = None
    held: Mapping[int, frozenset[str]] = field(default_factory=dict)
    by_hand: frozenset[int] = frozenset()
    compute: Compute = guarded


@dataclass(frozen=True, slots=True)
class LeftIndex:
    """A message for the operator: a number of `clauses` of a stream have left the index.

    `expression`: the expression without its constants, or empty. `query_ids`: some of the queries. If `clauses` is 0,
    no clause reads the expression any more, and a later clause may try it again.
    """

    stream: str
    expression: str
    why: str
    clauses: int
    query_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason for a quarantine. `text`: an expression without its constants, empty for a single clause.

    `why`: the cause, for the operator. `digest`: identifies the expression across processes. `kept`: whether it must be
    in quarantine at the next start, too.
    """

    text: str
    why: str
    digest: str = ""
    kept: bool = False

    def __str__(self) -> str:
        return f"{self.text}: {self.why}" if self.text else self.why


@dataclass(frozen=True, slots=True)
class Outside:
    """An immutable state of the quarantine, for readers: reasons by attribute ID, and by SQC ID for single clauses.

    `ids`: int64[k], the SQC IDs of all clauses in quarantine, ascending.
    """

    attributes: Mapping[int, Reason]
    clauses: Mapping[int, Reason]
    ids: Array

    def reasons(self, sqc_id: int, attributes: Sequence[int]) -> list[Reason]:
        """The reasons why a clause is not in the index. Empty if it is in the index."""
        reasons = [self.attributes[a] for a in attributes if a in self.attributes] if self.attributes else []
        return [*reasons, self.clauses[sqc_id]] if sqc_id in self.clauses else reasons


NO_PRECAUTIONS = Precautions()

NONE_OUT = Outside({}, {}, np.zeros(0, np.int64))


class Quarantine:
    """The clauses in quarantine. Only the writer may call this. Any thread may read the immutable value `outside`."""

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
        """Count an exception of an expression. Returns whether it reaches the limit, and is not in quarantine yet."""
        self._raised[attribute] = self._raised.get(attribute, 0) + 1
        return self._raised[attribute] >= MOST_RAISES and attribute not in self._attributes

    def put_out(self, attribute: int, reason: Reason) -> None:
        """Put an attribute into quarantine. The caller has taken all clauses that read it out of the index."""
        self._attributes[attribute] = reason
        self._show()

    def holds(self, attributes: Sequence[int]) -> bool:
        """Whether one of the attributes is in quarantine."""
        return bool(self._attributes) and any(a in self._attributes for a in attributes)

    def take(self, ids: Array, slots: Array, alone: Reason | None = None) -> None:
        """Add clauses by their SQC IDs and slots (int64[k] each), which must be new. O(n + k).

        `alone`: the reason for these clauses, if it is not an attribute in quarantine.
        """
        if not len(ids):
            return
        if alone is not None:
            self._alone.update(dict.fromkeys(ids.tolist(), alone))
        both = np.concatenate([self.ids, ids])
        order = np.argsort(both)
        self.ids, self.slots = both[order], np.concatenate([self.slots, slots])[order]
        self._show()

    def drop(self, sqc_ids: Array) -> Array:
        """Remove the clauses among `sqc_ids` (int64[k]) that are in quarantine. Returns the places of the other IDs.
        O(n + k)."""
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
        """Remove an attribute that no clause uses any more. Returns the reason for its quarantine, or None."""
        self._raised.pop(attribute, None)
        reason = self._attributes.pop(attribute, None)
        if reason is not None:
            self._show()
        return reason

    def among(self, first: int, before: int) -> Array:
        """The SQC IDs in [first, before) of clauses in quarantine, int64, ascending."""
        low, high = np.searchsorted(self.ids, (first, before))
        ids: Array = self.ids[low:high]
        return ids

    def _show(self) -> None:
        self.outside = Outside(dict(self._attributes), dict(self._alone), self.ids)

    def check(self) -> None:
        """Check that each clause is listed once, in order, and that single clauses are listed. Raises Corrupt."""
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
    """Make the reason for the quarantine of an expression. `why`: the cause. `persistent`: see `Reason.kept`."""
    return Reason(shape_of(expr), why, digest_of(expr), persistent)


def digest_of(expr: Expr) -> str:
    """A hash of an expression, the same in every process."""
    return hashlib.blake2b(expr_text(expr).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def shape_of(expr: Expr) -> str:
    """The text of an expression for a log. A `?` replaces each constant, as constants may be secret or long."""
    text = _shape(expr)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _shape(expr: Expr) -> str:
    if isinstance(expr, Literal):
        return "?"
    if isinstance(expr, AttributeRef):
        return expr.name
    return "now()" if isinstance(expr, Now) else f"{shown_name(expr.name)}({', '.join(map(_shape, expr.args))})"
