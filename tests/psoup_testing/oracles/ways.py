"""Ways chosen by a test: only some of a step, all but some, and a record of the ways that gave the answers.

with pytest.MonkeyPatch.context() as patch:
    only(patch, JOIN, "routed_join")
    answer.to_table()                       every join is routed
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from psoup.execution.ways import STEPS
from psoup.plan.way import Way, Ways

AnyWay = Way[Any, Any]
AnyWays = Ways[Any, Any]


def only(patch: pytest.MonkeyPatch, step: AnyWays, *names: str) -> None:
    """Take no other ways of a step than these."""
    assert {way.name for way in step.ways} >= set(names)
    _change(patch, lambda ways, way: way if ways is not step or way.name in names else None)


def without(patch: pytest.MonkeyPatch, step: AnyWays, *names: str) -> None:
    """Take all ways of a step but these."""
    assert {way.name for way in step.ways} >= set(names)
    _change(patch, lambda ways, way: None if ways is step and way.name in names else way)


def recorded(patch: pytest.MonkeyPatch) -> list[str]:
    """The names of the ways that do not give up, as they are taken from now on."""
    names = list[str]()

    def noted(_: AnyWays, way: AnyWay) -> AnyWay:
        def run(case: Any) -> Any:
            rows = way.run(case)
            names.append(way.name)
            return rows

        return replace(way, run=run)

    _change(patch, noted)
    return names


def wrapped(patch: pytest.MonkeyPatch, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Run the ways of that name, of all steps, through a function around them."""
    _change(patch, lambda _, way: replace(way, run=wrap(way.run)) if way.name == name else way)


def _change(patch: pytest.MonkeyPatch, change: Callable[[AnyWays, AnyWay], AnyWay | None]) -> None:
    """Let `change` replace each way that serves a node, or leave it out."""
    for step in STEPS:
        patch.setattr(step, "serving", partial(_changed, step, step.serving, change))


def _changed(
    ways: AnyWays,
    serving: Callable[[object], tuple[AnyWay, ...]],
    change: Callable[[AnyWays, AnyWay], AnyWay | None],
    node: object,
) -> tuple[AnyWay, ...]:
    return tuple([new for way in serving(node) if (new := change(ways, way)) is not None])
