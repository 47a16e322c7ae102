"""A condition that decides whether a tuple is in an answer, with its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

PartnerKind = OneOf["partner", "absence", "removal"]
"""`partner`: the row of the tuple has a partner, or needs one. `absence`: the row must not have a partner. `removal`:
the tuple is such a partner, and takes rows away."""


@dataclass(frozen=True, slots=True)
class MatchCondition:
    """A condition. `text`: in SQL, except for `arrival`. `values`: the expressions that it reads, with values.

    `partners`: for a condition over several sources, the sources and IDs of the tuples that were found. A row of a
    subselect has no ID.
    """

    kind: OneOf["factor", "window", "retention", "arrival", "version"] | PartnerKind
    text: str
    passed: bool
    values: tuple[tuple[str, str], ...] = ()
    partners: tuple[tuple[str, int | None], ...] = ()
