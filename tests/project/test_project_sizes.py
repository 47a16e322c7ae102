"""Files and functions stay small enough to be read at once."""

import ast
import io
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("psoup", "storage", "service", "clients", "benchmarks", "tests")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

FILE_LINES = 400
FUNCTION_LINES = 40
KERNEL_LINES = 60
Function = ast.FunctionDef | ast.AsyncFunctionDef


def code_lines(source: str) -> set[int]:
    """The numbers of lines that hold code: neither blank nor comment nor docstring."""
    noise = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in noise:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | Function):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                lines.difference_update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def may_be_long(source: str, limit: int) -> bool:
    """Whether a function may have more lines than `limit`. Takes a tenth of the time of a parse.

    A function ends before the next line of code that is not indented more than its `def`. Lines of texts count as
    indented.
    """
    opened, inside = list[tuple[int, int]](), False
    for number, line in enumerate([*source.splitlines(), "end"]):
        if (line.count('"""') + line.count("'''")) % 2:
            inside = not inside
        elif not inside and (code := line.lstrip()) and code[0] not in "#)]}":
            indent = len(line) - len(code)
            while opened and opened[-1][0] >= indent:
                if number - opened.pop()[1] > limit:
                    return True
            if code.startswith(("def ", "async def ")):
                opened.append((indent, number))
    return False


def functions(source: str) -> list[Function]:
    """All functions and methods of a module: not even those in others are in expressions, of which most nodes are."""
    found, ahead = list[Function](), list[ast.AST]([ast.parse(source)])
    while ahead:
        node = ahead.pop()
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            ahead += getattr(node, part, ())
        if isinstance(node, Function):
            found.append(node)
    return found


def lines_below(node: Function) -> int:
    """All lines of a function but its signature: a long list of parameters is no long function."""
    return (node.end_lineno or node.lineno) + 1 - node.body[0].lineno


def own_lines(node: Function, code: set[int]) -> int:
    """Lines of code among these."""
    first = node.body[0].lineno
    return len(code & set(range(first, first + lines_below(node))))


def test_files_are_at_most_400_lines_long() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in SOURCES}
    assert {path: lines for path, lines in lengths.items() if lines > FILE_LINES} == {}


def test_functions_are_at_most_40_code_lines_long_and_kernels_60() -> None:
    long = {}
    for path in SOURCES:
        source = path.read_text()
        limit = KERNEL_LINES if (ROOT / "psoup/kernels") in path.parents else FUNCTION_LINES
        tall = [node for node in functions(source) if lines_below(node) > limit] if may_be_long(source, limit) else []
        code = code_lines(source) if tall else set()  # which takes four times as long as to parse
        for node in tall:
            if own_lines(node, code) > limit:
                long[f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"] = own_lines(node, code)
    assert long == {}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f():\n    '''A\n    docstring.'''\n    # why\n\n    return 1\n", 1),
        ("def f(a,\n      b):\n    x = [\n        1,\n    ]\n    return x\n", 4),
    ],
)
def test_what_counts_as_a_line_of_code(source: str, expected: int) -> None:
    node = ast.parse(source).body[0]
    assert isinstance(node, ast.FunctionDef)
    assert own_lines(node, code_lines(source)) == expected
