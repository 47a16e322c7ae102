"""Files that a document names, in backticks; `psoup/data/{chunk,piece}.py` names two."""

import re

_NAMED = re.compile(r"`((?:psoup|protos|storage|service|clients|tests|benchmarks|\.ci)/[\w./*{},-]*)`")


def named_files(text: str) -> set[str]:
    """The paths, braces taken apart."""
    paths = set[str]()
    for name in _NAMED.findall(text):
        before, brace, rest = name.partition("{")
        inside, _, after = rest.partition("}")
        paths |= {before + part + after for part in inside.split(",")} if brace else {name}
    return paths
