"""`assert` in the product is there for the type checker alone: what must hold is said by `psoup.invariants.ensure`.

`python -O` drops it, and what stands in it is then not even done.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from psoup_testing.suite.trees import nodes

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("psoup", "storage/psoup_storage", "service/psoup_service", "clients")
ASSERT = re.compile(r"\bassert\b")
"""A module without this word is not parsed."""


def _narrows(test: ast.expr) -> bool:
    """`isinstance(…)` or `… is not None`, or some of them."""
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            return all(map(_narrows, values))
        case ast.Call(func=ast.Name(id="isinstance")):
            return True
        case ast.Compare(ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return True
    return False


def test_assert_only_narrows_types() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}: assert {ast.unparse(node.test)}"
        for folder in PRODUCT
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in (nodes(ast.parse(path.read_text())) if ASSERT.search(path.read_text()) else ())
        if isinstance(node, ast.Assert) and not _narrows(node.test)
    ]
    assert not wrong, "use ensure of psoup.invariants:\n" + "\n".join(wrong)
