"""Public names and their signatures are pinned: a change that users notice shows as a change of one text file.

`make golden` writes the file anew.
"""

import importlib
import inspect
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "public_names.txt"
PUBLIC = {"psoup_client": None, "psoup_spark": None, "psoup.local": ("LocalPSoup",)}
"""Modules that users import, and the names that count; None: all of `__all__`."""


def signature(function: Callable[..., object]) -> str:
    """As it is written; Python puts quotes around annotations that are kept as text, and addresses into functions."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(inspect.signature(function)).replace("'", ""))


def describe(name: str, thing: object) -> Iterator[str]:
    """A class with its public members, or one line."""
    if isinstance(thing, type) and issubclass(thing, Exception):
        yield f"{name}({thing.__mro__[1].__name__})"
    elif isinstance(thing, type):
        yield f"{name}{signature(thing)}"
        bases = [base for base in reversed(thing.__mro__) if base.__module__.startswith("psoup")]
        for member, value in sorted({k: v for base in bases for k, v in vars(base).items()}.items()):
            if member.startswith("_"):
                continue
            function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            yield f"    {member}{signature(function)}" if inspect.isfunction(function) else f"    {member}"
    elif inspect.isfunction(thing):
        yield f"{name}{signature(thing)}"
    else:
        yield f"{name} = {thing!r}"


def public_names() -> str:
    """All of it, module by module."""
    lines: list[str] = []
    for module_name, names in PUBLIC.items():
        module = importlib.import_module(module_name)
        lines.append(f"# {module_name}")
        for name in sorted(names or module.__all__):
            lines.extend(describe(name, getattr(module, name)))
        lines.append("")
    return "\n".join(lines)


def test_public_names_are_those_of_the_golden_file() -> None:
    names = public_names()
    if os.environ.get("PSOUP_TEST_WRITE"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(names)
    assert names == GOLDEN.read_text(), "if the change is meant: make golden, and a line in CHANGELOG.md"
