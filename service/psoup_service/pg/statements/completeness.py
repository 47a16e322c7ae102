"""The completeness of an answer as a NOTICE.

NOTICE:  complete up to event 42; rows may still come
NOTICE:  final; without 3 late tuples
"""

from __future__ import annotations

from psoup.phrases import counted
from psoup_proto.v1 import types_pb2
from psoup_service.pg.contract import Notice
from psoup_service.wire.completeness import derived_phrases

CODE = "00000"
"""The SQLSTATE of the notice."""


def notice_of(contents: types_pb2.Completeness) -> Notice:
    """The notice for an answer."""
    said = "final" if contents.final else f"complete up to event {contents.sequence}; {_changes(contents)}"
    lacks = [
        f"{counted(number, noun)}{rest}"
        for number, noun, rest in (
            (_within(contents, "late"), "late tuple", ""),
            (_within(contents, "ahead"), "tuple", " too far ahead of the clock"),
            (_within(contents, "pending"), "tuple", " waiting for the watermark"),
            (contents.errors, "tuple", " with a value that cannot be computed"),
            (contents.unknown, "row", " with an unknown version"),
        )
        if number
    ]
    if lacks:
        said += f"; without {', '.join(lacks)}"
    if contents.truncated:
        said += "; the window begins before the oldest tuple that is kept"
    said += "".join(f"; {phrase}" for phrase in derived_phrases(contents))
    if contents.select_errors:
        said += f"; {counted(contents.select_errors, 'value')} of the SELECT list could not be computed: NULL"
    return Notice("NOTICE", CODE, said)


def _changes(contents: types_pb2.Completeness) -> str:
    """The changes that are still possible."""
    kinds = [source.window_kind for source in contents.sources] or [contents.window_kind]
    return "rows may come and leave" if types_pb2.WINDOW_KIND_TABLE in kinds else "rows may still come"


def _within(contents: types_pb2.Completeness, name: str) -> int:
    """The tuples of a kind in the window; in all windows if the reply has no number for this one."""
    field = f"{name}_in_window"
    has_own = contents.HasField(field)  # type: ignore[arg-type]  # it is the name of a field
    return int(getattr(contents, field if has_own else name))
