"""Statements of joins for tests that ask what becomes of their sides: `join_of(("r", "a > 5"), ("s", "b > 7"))`."""

from __future__ import annotations

import re


def join_of(*sides: tuple[str, str], column: str = "a") -> str:
    """The join by a column of the tuples of each stream that satisfy a condition on columns a and b."""
    origins = ", ".join(f"{stream} AS x{place}" for place, (stream, _) in enumerate(sides))
    conditions = [re.sub(r"\b([ab])\b", rf"x{place}.\1", text) for place, (_, text) in enumerate(sides)]
    keys = [f"x0.{column} = x{place}.{column}" for place in range(1, len(sides))]
    return f"SELECT x0.b FROM {origins} WHERE {' AND '.join([*conditions, *keys])}"
