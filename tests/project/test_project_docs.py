"""The documents are true: examples run and print the shown output, and named paths and targets exist.

README holds a session in Python (`>>>` in a python block) and one in the shell (`$ ` in a console block), and the
document of saved searches one in Python. They run here, verbatim and in order, against a service started for them; only
the incarnation in IDs may differ.
"""

import doctest
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from psoup_testing.services.zygote import Zygote
from psoup_testing.suite.documents import named_files
from psoup_testing.suite.seeded import seeded
from psoup_testing.suite.sweeps import swept
from psoup_testing.suite.terminal import run_in_terminal

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = (
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "benchmarks/README.md",
    "docs/amounts.md",
    "docs/assistants.md",
    "docs/async.md",
    "docs/copies.md",
    "docs/deploy.md",
    "docs/derived.md",
    "docs/feeds.md",
    "docs/files.md",
    "docs/functions.md",
    "docs/http.md",
    "docs/joins.md",
    "docs/observability.md",
    "docs/operations.md",
    "docs/other-languages.md",
    "docs/papers.md",
    "docs/postgresql.md",
    "docs/reproduction.md",
    "docs/saved-searches.md",
    "docs/security.md",
    "docs/spark.md",
    "docs/sql.md",
    "docs/scale.md",
    "docs/speed.md",
    "docs/tables.md",
    "docs/web.md",
    "docs/webhooks.md",
    "docs/windows.md",
    "docs/reference/python.md",
    "docs/reference/cli.md",
    "tests/README.md",
)
INCARNATION = re.compile(r"\b([qs])-[0-9a-f]{8}-(?=[0-9])")


def blocks(document: str, language: str) -> list[str]:
    """The fenced blocks of one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / document).read_text(), re.DOTALL | re.MULTILINE)


def same_incarnation(text: str) -> str:
    return INCARNATION.sub(r"\1-00000000-", text)


class AnyIncarnation(doctest.OutputChecker):
    """Compares after making all incarnations the same."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(same_incarnation(want), same_incarnation(got), optionflags)


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with Zygote() as ready:
        yield ready


@pytest.fixture
def address(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a service on a directory of its own listens."""
    zygote.start(str(tmp_path_factory.mktemp("service") / "data"))
    yield zygote.ready()
    assert zygote.stop() == 0


@pytest.mark.parametrize(
    "document",
    swept(
        [
            "README.md",
            "docs/amounts.md",
            "docs/copies.md",
            "docs/derived.md",
            "docs/feeds.md",
            "docs/joins.md",
            "docs/saved-searches.md",
            "docs/sql.md",
            "docs/tables.md",
            "docs/windows.md",
        ],
        (6,),
    ),
)
def test_python_session_prints_what_the_document_shows(
    document: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PSOUP_ADDRESS", address)
    source = "\n".join(block for block in blocks(document, "python") if ">>>" in block)
    test = doctest.DocTestParser().get_doctest(source, {}, document, document, 0)
    assert len(test.examples) >= 8
    report: list[str] = []
    doctest.DocTestRunner(AnyIncarnation()).run(test, out=report.append)
    assert report == []


def shell_steps(source: str) -> Iterator[tuple[str, str]]:
    """(command, what it prints) of each step of a console block; a command may go on after a backslash."""
    for step in re.split(r"^\$ ", source, flags=re.MULTILINE)[1:]:
        lines = step.split("\n")
        length = next(n for n, line in enumerate(lines, 1) if not line.endswith("\\"))
        yield "\n".join(lines[:length]), "\n".join(lines[length:]).rstrip()


@pytest.mark.long
@pytest.mark.parametrize("document", ["README.md", "docs/files.md"])
def test_shell_session_prints_what_the_document_shows(document: str, address: str, tmp_path: Path) -> None:
    steps = [step for block in blocks(document, "console") for step in shell_steps(block)]
    assert len(steps) >= 6
    incarnation = ""
    for command, expected in steps:
        if incarnation:
            command = INCARNATION.sub(rf"\1-{incarnation}-", command)
        shown = run_in_terminal(command, tmp_path, address)
        assert same_incarnation(shown) == same_incarnation(expected), command
        found = INCARNATION.search(shown)
        incarnation = found[0].split("-")[1] if found else incarnation


@pytest.mark.parametrize("document", DOCUMENTS)
def test_files_that_a_document_names_exist(document: str) -> None:
    text = (ROOT / document).read_text()
    named = named_files(text)
    missing = [name for name in sorted(named) if not list(ROOT.glob(name.rstrip("/")))]
    linked = {target.split("#")[0] for target in re.findall(r"\]\((?!https?:|#)([^)]+)\)", text)}
    missing += [target for target in sorted(linked) if not ((ROOT / document).parent / target).exists()]
    assert missing == []


@pytest.mark.parametrize(("section", "walks"), [("push", [1]), ("registration", [2, 3]), ("invocation", [4])])
def test_architecture_names_a_dozen_files_that_decide(section: str, walks: list[int]) -> None:
    """The files that the page calls decisive are on the walk: `docs/reference/walks.md` has a mark for each."""
    page = (ROOT / "ARCHITECTURE.md").read_text()
    text = re.search(rf"^## An? {section}\n(.*?)^## ", page, re.DOTALL | re.MULTILINE)
    assert text is not None
    named = [name for line in text[1].splitlines() if line.startswith("| `") for name in named_files(line)]
    rows = [line.split("|") for line in (ROOT / "docs/reference/walks.md").read_text().splitlines()]
    rows = [row for row in rows if len(row) > 4 and any(row[1 + walk].strip() == "x" for walk in walks)]
    walked = {row[1].strip(" `") for row in rows}
    assert 6 <= len(named) <= 12
    assert [name for name in named if name not in walked] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_make_targets_that_a_document_names_exist(document: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^    |`)make ([a-z-]+)", (ROOT / document).read_text(), re.MULTILINE))
    assert named - targets == set()


def test_every_make_target_has_a_sentence() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    described = set(re.findall(r"^([a-z-]+):.*## .+\.$", makefile, re.MULTILINE))
    assert set(phony[1].split()) == described


def test_seeded_bugs_are_listed_with_their_tests() -> None:
    bugs = [(path, *bug) for path in sorted((ROOT / "tests").rglob("test_*.py")) for bug in seeded(path)]
    assert len(bugs) > 250
    assert [bug for bug, count in Counter(bugs).items() if count > 1] == []
