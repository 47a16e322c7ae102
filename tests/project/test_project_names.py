"""Public names and their signatures are pinned: a change that users notice shows as a change of one text file.

`make golden` writes the file anew.
"""

import ast
import importlib
import inspect
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import psoup_client

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "public_names.txt"
PUBLIC = {"psoup_client": None, "psoup_client.aio": None, "psoup_spark": None, "psoup.local": ("LocalPSoup",)}
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


NOT_OF_USERS = {
    *("of", "plus", "joined", "together", "begin", "convert", "note_sequence", "know_sequence", "reflecting"),
    *("abandon", "add_table", "commit_parts"),
}
"""Public within the SDK: they take messages of the wire, or what calls share."""


def test_typical_use_has_every_call_of_the_sdk() -> None:
    tree = ast.parse((Path(__file__).resolve().parents[1] / "psoup_testing/services/typical_use.py").read_text())
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    kinds = [kind for name in psoup_client.__all__ if isinstance(kind := getattr(psoup_client, name), type)]
    calls = {
        f"{kind.__name__}.{name}"
        for kind in kinds
        for base in kind.__mro__
        if base.__module__.startswith("psoup_client")
        for name, value in vars(base).items()
        if not name.startswith("_") and inspect.isroutine(value) and name not in NOT_OF_USERS | used
    }
    assert calls - {"RetryOptions.pauses"} == set(), "show them in tests/psoup_testing/services/typical_use.py"
