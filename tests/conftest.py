"""What holds for every test: the same Hypothesis cases in each run, and a summary of what the random tests did.

`PSOUP_TEST_SEED` and `PSOUP_TEST_SCALE` are explained in `psoup_testing.suite.budget`. The random histories have every
structure checked after every event (`verify="all"`); all else is checked as it is in production. Folders of tests lie
in memory where there is room (`TMPDIR` names another place): no test cuts the power of its machine, so none needs one.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

_MEMORY, _ROOM = Path("/dev/shm"), 4 * 2**30
if "TMPDIR" not in os.environ and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM:
    os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)
_PACKAGE = Path(__file__).resolve().parent.parent / "psoup"
if not os.access(_PACKAGE, os.W_OK):  # a read-only checkout: Numba must keep its compiled kernels elsewhere
    os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(tempfile.gettempdir()) / "psoup-numba"))

from psoup_testing.kernel_cases.unlisted_types import refuse_unlisted  # noqa: E402
from psoup_testing.services.command import build_once  # noqa: E402
from psoup_testing.suite.budget import BUDGETS, SCALE, SEED, scaled  # noqa: E402 - Numba reads its settings when it is imported
from psoup_testing.suite.coverage import COVERAGE  # noqa: E402
from psoup_testing.suite.kept_structures import KEPT, observe  # noqa: E402
from psoup_testing.suite.late import be_late  # noqa: E402
from psoup_testing.suite.scheduling import rank, unit  # noqa: E402

if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in a background job of a shell
gc.disable()  # while tests are collected: what comes then stays, and each process looked at it for tenths of a second
settings.register_profile(
    "psoup", max_examples=scaled(100), derandomize=True, deadline=None, database=None, print_blob=True
)
settings.load_profile("psoup")
build_once()
be_late()
observe()
refuse_unlisted()

_LINES = pytest.StashKey[list[str]]()
_FILES_TO_A_FREEZE = 10
_FILES = set[Path]()
"""The files of the tests that this process has begun."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_LINES] = []


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """By file, as xdist does it, but for the order and for folders that stay together."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False
    scheduler = LoadFileScheduling(config, log)
    scheduler._split_scope = unit
    return scheduler


@pytest.fixture(scope="session")
def killed_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a data directory as a killed service leaves it, and its answers; tests copy `data`."""
    from psoup_testing.engines.format_fixture import make

    folder = tmp_path_factory.mktemp("killed")
    make(folder)
    return folder


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests whose cases Hypothesis draws, before -m selects, and order all tests."""
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("random")
    items.sort(key=lambda item: rank(item.nodeid))


def pytest_collection_finish() -> None:
    """Exclude what all test modules made, which never goes, from the garbage collector, and let it run rarely."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 50)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Exclude what the last files left: else each collection that a test asks for looks at all of it, 0.3 s long."""
    if item.path not in _FILES:
        _FILES.add(item.path)
        if len(_FILES) % _FILES_TO_A_FREEZE == 0:
            gc.collect()
            gc.freeze()


def pytest_report_header() -> str:
    return f"random tests: PSOUP_TEST_SEED={SEED} PSOUP_TEST_SCALE={SCALE:g}"


def _summary() -> list[str]:
    lines = [budget.report() for budget in BUDGETS if budget.elapsed]
    return lines + (COVERAGE.report() if COVERAGE.cases else []) + (KEPT.report() if KEPT.answers else [])


def pytest_sessionfinish(session: pytest.Session) -> None:
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:  # a worker of pytest-xdist: the controller prints
        output["random"] = _summary()
    else:
        session.config.stash[_LINES] += _summary()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[_LINES] += getattr(node, "workeroutput", {}).get("random", [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash[_LINES]:
        terminalreporter.section("random tests")
        for line in config.stash[_LINES]:
            terminalreporter.line(line)
