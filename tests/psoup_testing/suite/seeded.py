"""Lists the seeded bugs: faults that were planted in the code by hand, with the tests that failed. See `make seeded`.

A test has a mark for each: `@pytest.mark.seeded("a clause that a pack lacks is taken as zero")`.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]


def seeded(path: Path) -> Iterator[tuple[str, str]]:
    """The seeded bugs of a file of tests: bug, and the test that catches it ("" for all of the file)."""
    source = path.read_text()
    for node in ast.parse(source).body if "mark.seeded(" in source else ():
        name = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else ""
        marks = node.decorator_list if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else [node]
        for call in (call for mark in marks for call in ast.walk(mark)):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.seeded":
                yield ast.literal_eval(call.args[0]), name


def main() -> None:
    """Print a line for each seeded bug."""
    for path in sorted(TESTS.rglob("test_*.py")):
        for bug, name in seeded(path):
            sys.stdout.write(f"{bug}\t{path.relative_to(TESTS.parent)}{'::' if name else ''}{name}\n")


if __name__ == "__main__":
    main()
