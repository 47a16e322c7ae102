"""Invariants: conditions on a structure that must always be true, and the exception if one is not.

    ensure(len(ids) == len(slots), self, "each clause has a slot", ids=ids, slots=slots)
        └─ no ─> Corrupt: the structure's name, the problem, and the facts as a dump of at most 4 KiB

Modules call `ensure` instead of `assert`: `python -O` removes an `assert`, and a failed `assert` says nothing about the
structure. A dump shows only numbers (IDs, slots, counts). Texts may come from a user, so every other value is shown as
its type.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Literal

import numpy as np

from psoup.errors import Corrupt

Verify = Literal["off", "cheap", "all"]
"""The checks that an engine runs without a call of its host.

`off`: none. `cheap`: after each run of events, the counts of the structures that the run has changed. `all`: after each
event and each maintenance task, every structure of the streams that it touched.
"""

_SHOWN = 16
"""The most members of a collection in a dump."""
_DUMP_CHARS = 4_096


def ensure(holds: bool | np.bool_, structure: object, problem: str, **facts: object) -> None:
    """Raise Corrupt with `problem` and a dump of `facts` if `holds` is False. `structure`: the structure, or its
    name."""
    if not holds:
        raise corrupt(structure, problem, **facts)


def corrupt(structure: object, problem: str, **facts: object) -> Corrupt:
    """Make the error that `ensure` raises. For callers that compute costly facts only after a failed check."""
    name = structure if isinstance(structure, str) else type(structure).__name__
    dump = ", ".join(f"{key}={shown(value)}" for key, value in facts.items())
    return Corrupt(name, problem, dump if len(dump) <= _DUMP_CHARS else f"{dump[:_DUMP_CHARS]}…")


def shown(value: object) -> str:
    """The text of a value in a dump: numbers, and the first numbers of collections. Every other value is shown as its
    type."""
    if value is None or isinstance(value, bool | int | np.bool_ | np.integer | range):
        return str(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "iub":
        return f"{value.dtype}{_some(value.reshape(-1).tolist())}"
    if isinstance(value, Mapping):
        pairs = [f"{shown(key)}: {shown(item)}" for key, item in islice(value.items(), _SHOWN)]
        return f"{{{', '.join(pairs)}{_more(value)}}}"
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes):
        return _some(value)
    return type(value).__name__


def _some(values: Collection[object]) -> str:
    return f"[{', '.join(map(shown, islice(values, _SHOWN)))}{_more(values)}]"


def _more(values: Collection[object]) -> str:
    return f", … {len(values):,} in all" if len(values) > _SHOWN else ""
