"""Tuple IDs become rows, and rows tuple IDs, only in `psoup.data.places`: other code computes with no chunk's IDs.

chunk.first_id + offset      wrong for a thinned chunk, whose rows have gaps between their IDs
chunk.places.ids(offsets)    right for any chunk
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
_ENDS = ("first_id", "end_id")
_CHUNK = re.compile(r"(?:^|[._])(?:data|chunk|open|first|last|match|entry|own)(?:\[-?\d+\])?$")
"""The end of an expression that names a chunk."""
ALLOWED = {
    "psoup/data/places.py": "the module itself",
    "psoup/data/data_stem.py": "the open chunk, which is never thinned",
    "psoup/data/arrivals.py": "pages of arrival numbers, not chunks",
    "psoup/data/thinning.py": "an ID that stands for missing rows",
    "psoup/engine/maintenance/cover.py": "the range of the IDs of several chunks",
    "psoup/admission/attachment.py": "the last ID of a chunk",
    "psoup/answer/copies/answer_again.py": "the middle between two IDs",
    "psoup/answer/tuples/match_bits.py": "an ID at which a range is cut",
    "psoup/published/snapshot.py": "the last ID of a chunk that is not thinned",
}
"""Files that may compute with the ends of a chunk's tuple IDs, with the reasons."""


def computed(source: str) -> Iterator[int]:
    """Yield the lines that add or subtract the ends of a chunk's tuple IDs, or give them a shorter name."""
    for node in ast.walk(ast.parse(source)):
        parts: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            parts = [node.left, node.right]
        elif isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            both = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
            parts = [*value.elts] if both and isinstance(value, ast.Tuple) else [value]
        for part in parts:
            if isinstance(part, ast.Attribute) and part.attr in _ENDS and _CHUNK.search(ast.unparse(part.value)):
                yield node.lineno


def test_only_places_compute_with_the_tuple_ids_of_chunks() -> None:
    lines = []
    for path in sorted((ROOT / "psoup").rglob("*.py")):
        name, source = str(path.relative_to(ROOT)), path.read_text()
        if name not in ALLOWED and any(end in source for end in _ENDS):
            lines += [f"{name}:{line}" for line in computed(source)]
    assert not lines, f"use the places of the chunk (psoup/data/places.py): {lines}"


def test_each_form_of_such_a_computation_is_found() -> None:
    for text in ("a = chunk.first_id + 1", "b = ids - entry.data.first_id", "first_id = match.data.first_id"):
        assert [*computed(text)] == [1], text
    for text in ("a = event.first_id + 1", "b = chunk.places.ids(rows)", "c = chunk.first_id < low"):
        assert not [*computed(text)], text
