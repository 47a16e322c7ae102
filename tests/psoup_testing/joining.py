"""Joins made by hand of the statements of their sides, wherever a text is bound: `SIDES a || b` for a and b."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from psoup.plan.nodes import Join, Project
from psoup.plan.standing import StandingQuery
from psoup.sql.templates.ladder import bind_text

_WORD, _BETWEEN = "SIDES ", " || "


def of_sides(*sides: str) -> str:
    """The text of a join of some statements over a stream each."""
    return _WORD + _BETWEEN.join(sides)


def join_of(text: str, sides: Sequence[StandingQuery]) -> StandingQuery:
    """The join of all pairs of the tuples of some queries."""
    origins = [replace(side.selections[0].source, place=place) for place, side in enumerate(sides)]
    selections = [replace(side.selections[0], source=origin) for side, origin in zip(sides, origins, strict=True)]
    node = Join(tuple(origins), (), (), ())
    return StandingQuery(text, tuple(selections), Project(node, node.schema[:1]), tuple(sides))


def bind_joins(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """Bind the texts of joins in some modules."""

    def bind(forms: Any, text: str, lookup: Callable[[str], Any], names: Sequence[str] = ()) -> StandingQuery:
        if not text.startswith(_WORD):
            return bind_text(forms, text, lookup, names)
        return join_of(text, [bind_text(forms, side, lookup, names) for side in text[len(_WORD) :].split(_BETWEEN)])

    for module in modules:
        monkeypatch.setattr(f"{module}.bind_text", bind)
