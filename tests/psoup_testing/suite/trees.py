"""The syntax trees of modules, for rules about the whole project."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a tree except constants and contexts, in no order. Takes half the time of `ast.walk`."""
    ahead = [tree]
    while ahead:
        node = ahead.pop()
        yield node
        if type(node) is ast.Name:
            continue
        for value in vars(node).values():
            if isinstance(value, list):
                ahead += [part for part in value if isinstance(part, ast.AST)]
            elif isinstance(value, ast.AST) and type(value) is not ast.Constant:
                ahead.append(value)
