"""The comments of the .proto files, which descriptors lack at run time. The files come with the package.

    // Takes tuples.                 psoup.v1.IngestService             "Takes tuples."
    service IngestService {
      // Pushes one batch.           psoup.v1.IngestService.Push        "Pushes one batch."
      rpc Push(…) returns (…);

The reader knows the form in which the files of this project are written: a declaration begins a line. A test compares
it with protoc.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.resources import files

_PACKAGE = "psoup.v1"
_SCOPE = re.compile(r"(message|enum|service|oneof) (\w+) \{(\})?")
_RPC = re.compile(r"rpc (\w+)\(")
_FIELD = re.compile(r"(?:(?:repeated|optional) )?(?:[\w.]+|map<[\w., ]+>) (\w+) = \d+")
_VALUE = re.compile(r"([A-Z][A-Z0-9_]*) = \d+")
_FORMS = (_RPC, _VALUE, _FIELD)


def comments() -> Mapping[str, str]:
    """The comment of each service, method, message, field, enum and value, by its full name. Reads all files."""
    texts = dict[str, str]()
    for file in files("psoup_proto").joinpath("v1").iterdir():
        if file.name.endswith(".proto"):
            texts.update(comments_of(file.read_text(encoding="utf-8")))
    return texts


def comments_of(text: str) -> Iterator[tuple[str, str]]:
    """The full names of the declarations of a file, each with its comment. A value belongs to its enum."""
    scopes, lines = list[str](), list[str]()
    for line in map(str.strip, text.splitlines()):
        if line.startswith("//"):
            lines.append(line[2:].removeprefix(" "))
            continue
        scope = _SCOPE.match(line)
        declared = scope[2] if scope else next((m[1] for form in _FORMS if (m := form.match(line))), "")
        if declared and lines:
            parents = [name for name in scopes if name]
            yield ".".join((_PACKAGE, *parents, declared)), "\n".join(lines)
        lines.clear()
        if scope and not scope[3]:
            scopes.append("" if scope[1] == "oneof" else scope[2])
        elif line.startswith("}") and scopes:
            scopes.pop()
