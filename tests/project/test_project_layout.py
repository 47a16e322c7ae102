"""Rules of the tree that no linter knows: folders, names of tests, waiting, what is left undone."""

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(
    path
    for folder in ("psoup", "storage", "service", "clients", "benchmarks", "tests")
    for path in (ROOT / folder).rglob("*.py")
)
TESTS = sorted((ROOT / "tests").rglob("test_*.py"))


def test_folders_that_are_no_packages_have_no_init() -> None:
    folders = ("protos", "storage", "service", "clients", "tests")
    assert [folder for folder in folders if (ROOT / folder / "__init__.py").exists()] == []


def test_names_of_test_files_are_unique_and_tell_their_folder() -> None:
    counts = Counter(path.name for path in TESTS)
    assert [name for name, count in counts.items() if count > 1] == []


def test_tests_never_sleep() -> None:
    """Wait for a sequence number, an event or a process instead. `asyncio.sleep(0)` is a turn of the loop."""
    sleeping = []
    for path in TESTS:
        source = path.read_text()
        for node in ast.walk(ast.parse(source)) if "sleep" in source else ():
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "sleep"):
                continue
            if ast.unparse(node) != "asyncio.sleep(0)":
                sleeping.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert sleeping == []


def test_nothing_is_marked_as_undone() -> None:
    mark = re.compile("|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")))
    marked = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in SOURCES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if mark.search(line)
    ]
    assert marked == []


def test_every_module_says_what_it_is() -> None:
    silent = []
    for path in SOURCES:
        source = path.read_text()
        generated = path.name.endswith(("_pb2.py", "_pb2_grpc.py"))
        first = next((line for line in source.splitlines() if line.strip() and not line.startswith("#")), "")
        if source.strip() and not generated and not first.startswith(('"""', 'r"""')):
            silent.append(str(path.relative_to(ROOT)))
    assert silent == []


def test_no_package_has_a_name_over_a_module_of_its_own() -> None:
    """`import package.name as m` is the module: a function of that name in the package would hide it."""
    hidden = []
    for path in (ROOT / "psoup").rglob("__init__.py"):
        modules = {module.stem for module in path.parent.glob("*.py")}
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.asname or alias.name for alias in node.names] if isinstance(node, ast.ImportFrom) else []
            hidden += [f"{path.parent.relative_to(ROOT)}: {name}" for name in names if name in modules]
    assert hidden == []
