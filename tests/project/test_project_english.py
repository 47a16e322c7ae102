"""Plain English, by rules that a machine can count. `english.toml` holds what is still to be mended in each folder.

The counts of that list may only shrink: new text follows the rules, and a folder that was mended lowers its line.
CONTRIBUTING.md explains the rules and has examples.
"""

import ast
import inspect
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from psoup_testing.suite.sweeps import swept
from psoup_testing.suite.trees import nodes

ROOT = Path(__file__).resolve().parents[2]
EXCEPTIONS = Path(__file__).with_name("english.toml")
PRODUCT = ("psoup", "storage", "service", "clients")
BESIDE = ("benchmarks", "tests")
DOCUMENTS = (
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/*.md",
    "tests/*.md",
    "benchmarks/*.md",
)
MOST_WORDS = 20

OPENING = re.compile(r"(What|How|Who|Where|One|Those|It|This|That|These|Such)\b")
PHRASE = re.compile(
    r"\b(who|whoever|whom|somebody|nobody|others|of which|(?<!there )(?:is|are) no|(?:that|those) of)\b", re.IGNORECASE
)
NAMES = {"found", "own", "known", "kept", "what", "told", "asked", "held", "most", "least", "there", "of", "one"}
STORED = re.compile(
    rf"\b(?:{'|'.join(NAMES)})\b *(?:[-+*/|&%^@]?=|//=|:|,|\)|\]|$)|\b(?:for|as)\b.*\b(?:{'|'.join(NAMES)})\b", re.M
)
"""Code that may give a value to one of these names. A module without a match has no such name."""
TEXTS = re.compile(r'"""[\s\S]*?"""|#.*|"[^"\n]*"')
"""Texts and comments of a module."""
DOCSTRINGS = re.compile(r'"""([\s\S]*?)"""')
"""Texts in three quotes, as this project writes docstrings."""
PARTICIPLE = re.compile(r"\w+(ing|ed)$")
PICTURE = re.compile(r"\s{2}|>>>|\||```|#|[─│┌└]")
"""Lines that are no prose: indented, examples, tables, headings, drawings."""


def sentences(text: str) -> Iterator[str]:
    """Sentences of the prose of a text: of its paragraphs and list items, without code."""
    fence = False
    paragraph: list[str] = []
    for line in [*text.splitlines(), ""]:
        fence ^= line.lstrip().startswith("```")
        item = line.startswith(("- ", "* "))
        if not fence and line and not item and (paragraph or not PICTURE.match(line)):
            paragraph.append(line.strip())
            continue
        yield from re.split(r"(?<=[.!?:])\s+", re.sub(r"`[^`]*`|\([^)]*\)", "code", " ".join(paragraph)))
        paragraph = [line[2:]] if item and not fence else []


def faults_of_prose(text: str) -> Iterator[tuple[str, str]]:
    """Sentences that are too long."""
    yield from (("sentences", sentence) for sentence in sentences(text) if len(sentence.split()) > MOST_WORDS)


def may_store(source: str) -> bool:
    """Whether a module may give a value to one of NAMES. True if a text in it has a quote, which `TEXTS` misreads."""
    return "'\"" in source or '\\"' in source or STORED.search(TEXTS.sub("", source)) is not None


def may_explain(source: str) -> bool:
    """Whether a text in three quotes may break a rule of prose. Parsing all modules takes most of the test's time."""
    texts = map(inspect.cleandoc, DOCSTRINGS.findall(source))
    return any(OPENING.match(text) or any(True for _ in faults_of_prose(text)) for text in texts)


def statements(source: str) -> Iterator[ast.AST]:
    """All statements of a module, in no order. Takes a tenth of the time of all nodes."""
    ahead: list[ast.AST] = [ast.parse(source)]
    while ahead:
        node = ahead.pop()
        yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            ahead += getattr(node, part, ())


def faults_of_source(path: Path) -> Iterator[tuple[str, str]]:
    """Faults of a module: rule, and the words that break it."""
    source = path.read_text()
    if PARTICIPLE.match(path.stem.removeprefix("test_")):
        yield "modules", path.stem
    yield from (("phrases", found[0]) for found in PHRASE.finditer(source))
    stores = may_store(source)
    if not (stores or may_explain(source)):
        return
    for node in nodes(ast.parse(source)) if stores else statements(source):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            text = inspect.cleandoc(node.value.value)
            if OPENING.match(text):
                yield "openings", text.splitlines()[0]
            yield from faults_of_prose(text)
        elif isinstance(node, ast.arg) and node.arg in NAMES:
            yield "names", node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in NAMES:
            yield "names", node.id


def within(name: str, packages: tuple[str, ...]) -> bool:
    """Whether a folder or document belongs to packages. All that lies elsewhere belongs to the product."""
    return (name.split("/")[0] in BESIDE) == (packages == BESIDE)


def faults(packages: tuple[str, ...]) -> dict[str, list[tuple[str, str, str]]]:
    """Folder -> its faults: rule, file, words. Documents count as folders."""
    all_faults: dict[str, list[tuple[str, str, str]]] = {}
    sources = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    documents = [
        path for pattern in DOCUMENTS for path in ROOT.glob(pattern) if within(str(path.relative_to(ROOT)), packages)
    ]
    for path in sorted(sources + documents):
        name = str(path.relative_to(ROOT))
        folder = all_faults.setdefault(str(path.parent.relative_to(ROOT)) if path.suffix == ".py" else name, [])
        if path.suffix == ".py":
            folder += [(rule, name, words) for rule, words in faults_of_source(path)]
        else:
            text = path.read_text()
            folder += [("phrases", name, match[0]) for match in PHRASE.finditer(re.sub(r"`[^`\n]*`", "", text))]
            folder += [(rule, name, words) for rule, words in faults_of_prose(text)]
    return all_faults


def line_of(folder: str, counts: Counter[str]) -> str:
    """The line of the list for a folder."""
    return f'"{folder}" = {{ ' + ", ".join(f"{rule} = {counts[rule]}" for rule in sorted(counts)) + " }"


@pytest.mark.parametrize("packages", swept([(PRODUCT,), (BESIDE,)], fast=1), ids=["product", "beside"])
def test_text_follows_the_rules_where_it_is_not_excepted(packages: tuple[str, ...]) -> None:
    exceptions = tomllib.loads(EXCEPTIONS.read_text()).items()
    listed = {folder: Counter(counts) for folder, counts in exceptions if within(folder, packages)}
    problems = []
    actual = faults(packages)
    for folder in sorted({*actual, *listed}):
        counts = Counter(rule for rule, _, _ in actual.get(folder, []))
        if worse := +(counts - listed.get(folder, Counter())):
            shown = [f"  {rule}: {name}: {words}" for rule, name, words in actual[folder] if rule in worse]
            problems.append(f"{folder}: {dict(worse)} more than excepted, among\n" + "\n".join(shown))
        elif counts != listed.get(folder, Counter()):
            problems.append(f"{folder} has improved; write in {EXCEPTIONS.name}: {line_of(folder, counts)}")
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ('"""What all chunks hold."""', ["openings"]),
        ('"""The rows of a chunk."""', []),
        ("def push(of): ...", ["names"]),
        ("found, rows = 1, 2", ["names"]),
        ('raise ValueError("x is no number")', ["phrases"]),
        (f'"""The rows {"and more rows " * 7}."""', ["sentences"]),
        (f'"""The rows.\n\nThe {"rows " * 30}\n"""', ["sentences"]),
        (f'"""The rows.\n\n    {"rows " * 30}\n\nEnd.\n"""', []),
    ],
)
def test_faults_are_noticed(tmp_path: Path, text: str, rules: list[str]) -> None:
    (tmp_path / "chunk.py").write_text(text)
    assert [rule for rule, _ in faults_of_source(tmp_path / "chunk.py")] == rules
