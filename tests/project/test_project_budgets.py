"""Budgets without a limit: each has a reason here, so that no work in the background is without one by accident."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_PROGRAM = "a program without a host gives no budget; a service always does"
_CHECK = "a check of structures, on demand; it reads as a test does"
ALLOWED = {
    "psoup/work/read_budget.py <module>": "the definition of UNBOUNDED",
    "psoup/answer/invoke.py invoke": _PROGRAM,
    "psoup/answer/ask.py ask": _PROGRAM,
    "psoup/answer/table.py invoke_table": _PROGRAM,
    "psoup/execution/many/window_packs.py _check_pack": _CHECK,
    "psoup/execution/aggregate/check_folds.py _check_equal": _CHECK,
    "psoup/execution/aggregate/check_folds.py _check_spans": _CHECK,
    "psoup/execution/ahead/packs_ahead.py _find": "it only looks which names lie on the disk, and evaluates nothing",
    "service/psoup_service/host/reads/expectations.py on_loop": "its `ask` ends it after two milliseconds on the loop",
}
"""Functions that make a budget without a limit of bytes, or take UNBOUNDED but as a default: why they may."""


def unlimited(tree: ast.Module) -> Iterator[str]:
    """The functions that have a budget without a limit of bytes, by their names."""

    def walk(node: ast.AST, name: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                for part in (*child.body, *child.decorator_list):  # defaults are for programs without a host
                    yield from walk(ast.Interactive([part]), child.name)
                continue
            called = getattr(child.func, "id", getattr(child.func, "attr", "")) if isinstance(child, ast.Call) else ""
            if called == "ReadBudget" and "sort_bytes" not in {keyword.arg for keyword in child.keywords}:  # type: ignore[attr-defined]
                yield name
            if isinstance(child, ast.Name) and child.id == "UNBOUNDED" and isinstance(child.ctx, ast.Load):
                yield name
            yield from walk(child, name)

    yield from walk(tree, "<module>")


def test_a_budget_without_a_limit_has_a_reason() -> None:
    found = set[str]()
    for package in ("psoup", "service", "storage", "clients"):
        for path in sorted((ROOT / package).rglob("*.py")):
            place = path.relative_to(ROOT).as_posix()
            if path.name.endswith("_pb2.py") or "/build/" in place:
                continue
            source = path.read_text(encoding="utf-8")
            if "ReadBudget(" in source or "UNBOUNDED" in source:
                found.update(f"{place} {name}" for name in unlimited(ast.parse(source)))
    assert found - ALLOWED.keys() == set(), (
        "give each a budget of its own (psoup.execution.ahead.attempts), or a reason"
    )
    assert ALLOWED.keys() - found == set(), "reasons for what is there no more"


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("def f():\n    return ReadBudget()", ["f"]),
        ("def f():\n    return reading.ReadBudget(ask)", ["f"]),
        ("class A:\n    def f(self):\n        g(UNBOUNDED)", ["f"]),
        ("def f(budget=UNBOUNDED):\n    return ReadBudget(sort_bytes=1)", []),
    ],
)
def test_the_walk_finds_what_it_looks_for(source: str, wrong: list[str]) -> None:
    assert list(unlimited(ast.parse(source))) == wrong
