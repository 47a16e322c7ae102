"""docs/python.md is made of the SDK's docstrings, the table of settings of their descriptions: `make golden`."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import psoup_client
from psoup_client.calls.streams import StreamCalls
from psoup_client.client import Client
from psoup_client.session import Session
from psoup_service.settings_sources import load

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"
OPERATIONS = PAGE.parent / "operations.md"
INTRODUCTION = """# The Python SDK

All that `import psoup_client` gives, from its docstrings. How it is used: README.md and docs/saved-searches.md.
Everything is typed; `psoup_client` needs gRPC and PyArrow, and pandas or Polars only for frames of theirs.
"""
FIRST = (
    "Client",
    "Query",
    "Answer",
    "AnswerStream",
    "Completeness",
    "Producer",
    "Stage",
    "ClientOptions",
    "RetryOptions",
)
"""What a reader meets first; the others follow in the order of their names, and errors at the end."""

HEADINGS = {Client: "The connection", Session: "What all calls share", StreamCalls: "Calls about streams"}
"""Headings of groups of calls that are not the first line of their docstring."""


def signature(name: str, function: Callable[..., object]) -> str:
    """The call as a reader types it, a line for each argument if they are many."""
    made = inspect.signature(function)
    taken = [p for key, p in made.parameters.items() if key not in ("self", "cls")]
    arguments = [str(p).replace(f": '{p.annotation}'", f": {p.annotation}") for p in taken]
    arguments = [re.sub(r"= (\w+)\(.*\)$", r"= \1()", text) for text in arguments]  # a default that is all defaults
    kinds = [p.kind for p in taken]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        arguments.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    returns = "" if made.return_annotation in (made.empty, None, "None") else f" -> {made.return_annotation}"
    line = f"{name}({', '.join(arguments)}){returns}"
    if len(line) > 100:
        line = f"{name}(\n    " + ",\n    ".join(arguments) + f",\n){returns}"
    return f"```python\n{line}\n```\n"


def prose(text: str | None) -> str:
    """A docstring, its examples as code."""
    blocks = (text or "").strip().split("\n\n")
    shown = [
        f"```pycon\n{inspect.cleandoc(block)}\n```" if block.lstrip().startswith(">>>") else block for block in blocks
    ]
    return "\n\n".join(shown) + "\n"


def members(thing: type) -> Iterator[tuple[type, str, Any]]:
    """Public members of a class and of its bases here, each once with the base that wrote it, in their order."""
    seen: dict[str, tuple[type, Any]] = {}
    for base in reversed(thing.__mro__):
        if base.__module__.startswith("psoup"):
            seen.update({name: (base, value) for name, value in vars(base).items() if not name.startswith("_")})
    yield from sorted(((base, name, value) for name, (base, value) in seen.items()), key=lambda m: m[0] is Session)


def of_class(name: str, thing: type) -> Iterator[str]:
    """A class: how it is made, what it is, its members; those of the client by groups of calls."""
    yield f"## {name}\n"
    if hasattr(thing, "__dataclass_fields__"):
        fields = "\n".join(f"{field.name}: {field.type}" for field in thing.__dataclass_fields__.values())
        yield f"```python\n{fields}\n```\n"
    elif name in ("Client", "Producer"):
        yield signature(name, thing)
    yield prose(inspect.getdoc(thing))
    group: type | None = None
    for base, member, value in members(thing):
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if member == "of" or not (isinstance(value, property) or inspect.isfunction(function)):
            continue
        if thing is Client and base is not group:
            group = base
            yield f"### {HEADINGS.get(base) or (inspect.getdoc(base) or '').splitlines()[0].rstrip('.')}\n"
        yield f"#### {name.lower()}.{member}\n"
        if inspect.isfunction(function):
            yield signature(member, function)
        yield prose(inspect.getdoc(value))


def errors() -> Iterator[str]:
    """The tree of errors."""
    yield "## Errors\n"
    yield prose(inspect.getdoc(psoup_client.PSoupError))
    for name in psoup_client.__all__:
        thing = getattr(psoup_client, name)
        if isinstance(thing, type) and issubclass(thing, Exception) and thing is not psoup_client.PSoupError:
            told = " ".join((inspect.getdoc(thing) or "").split())
            base = thing.__mro__[1].__name__
            kind = "" if base == "PSoupError" else f" (a kind of `{base}`)"
            yield f"- `{name}`{kind}: {told}"
    yield ""


def reference() -> str:
    """The whole page."""
    classes = {name: getattr(psoup_client, name) for name in psoup_client.__all__}
    classes = {n: c for n, c in classes.items() if isinstance(c, type) and not issubclass(c, Exception)}
    order = [*FIRST, *sorted(set(classes) - set(FIRST))]
    parts = [INTRODUCTION, *(line for name in order for line in of_class(name, classes[name])), *errors()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


def test_the_page_of_the_sdk_is_made_of_its_docstrings() -> None:
    page = reference()
    if os.environ.get("PSOUP_TEST_WRITE"):
        PAGE.write_text(page)
    assert page == PAGE.read_text(), "if the change is meant: make golden"


def settings() -> str:
    """The table of the service's settings, as the operator's document has it."""
    lines = ["| setting | default | what it is |", "|---|---|---|"]
    for setting in load({}, environ={}).show():
        value = {"": "", "()": "", "None": ""}.get(f"{setting.value}", f"`{setting.value}`")
        lines.append(f"| `{setting.name}` | {value} | {setting.description} |")
    return "\n".join(lines) + "\n"


def test_the_table_of_settings_is_made_of_their_descriptions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = OPERATIONS.read_text()
    begin, end = page.index("\n", page.index("<!-- made by")) + 1, page.index("<!-- end -->")
    if os.environ.get("PSOUP_TEST_WRITE"):
        OPERATIONS.write_text(page[:begin] + settings() + page[end:])
        return
    assert page[begin:end] == settings(), "if the change is meant: make golden"


def test_every_public_name_says_what_it_is() -> None:
    for block in re.split(r"^## ", reference(), flags=re.MULTILINE)[1:]:
        name, *lines = block.splitlines()
        text = "\n".join(lines).partition("### ")[0]
        assert re.sub(r"```.*?```", "", text, flags=re.DOTALL).strip(), name
