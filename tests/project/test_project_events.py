"""No command and no event is ignored without a word: each `match` over them ends where the type checker looks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from psoup.events.commands import Command
from psoup.events.events import Event
from psoup_testing.suite.trees import nodes

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(path for package in ("psoup", "storage", "service") for path in (ROOT / package).rglob("*.py"))
KINDS = {kind.__name__ for union in (Command, Event) for kind in get_args(union)}
REST = {"ListCommand", "ListEvent"}
"""The types of a part of the commands, and of the events. The type checker refuses another kind as one of them."""
MATCH = re.compile(r"^ *match\b.*:$", re.MULTILINE)
"""A line that begins a `match`. A module without one is not parsed."""
TAKES_REST = {
    node.name
    for path in SOURCES
    if "import List" in path.read_text()
    for node in ast.walk(ast.parse(path.read_text()))
    if isinstance(node, ast.FunctionDef) and {getattr(at.annotation, "id", "") for at in node.args.args} & REST
}


def matches(tree: ast.AST) -> Iterator[ast.Match]:
    """Each `match` with at least two cases for kinds of commands or events."""
    for node in nodes(tree):
        if isinstance(node, ast.Match):
            patterns = [pattern for case in node.cases for pattern in ast.walk(case.pattern)]
            named = [pattern.cls for pattern in patterns if isinstance(pattern, ast.MatchClass)]
            if len({name.id for name in named if isinstance(name, ast.Name)} & KINDS) >= 2:
                yield node


def is_watched(node: ast.Match) -> bool:
    """Whether the type checker fails if a case is missing.

    The last case calls `assert_never`, or a function that takes only the other kinds.
    """
    last = node.cases[-1]
    wild = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None
    call = getattr(last.body[0], "value", None)
    if not wild or not isinstance(call, ast.Call) or ast.unparse(call.args[0]) != ast.unparse(node.subject):
        return False
    name = ast.unparse(call.func).rpartition(".")[2]
    return name == "assert_never" or name in TAKES_REST


def test_each_match_over_commands_or_events_ends_in_assert_never() -> None:
    seen, open_ended = 0, list[str]()
    for path in SOURCES:
        text = path.read_text()
        for node in matches(ast.parse(text)) if MATCH.search(text) else ():
            seen += 1
            if not is_watched(node):
                open_ended.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert open_ended == []
    assert seen >= 10


@pytest.mark.parametrize("last", ["", "    case _:\n        pass\n", "    case _:\n        take_any(event)\n"])
def test_a_match_that_ignores_the_rest_is_found(last: str) -> None:
    text = "match event:\n    case Pushed():\n        pass\n    case Attached():\n        pass\n" + last
    assert [is_watched(node) for node in matches(ast.parse(text))] == [False]
