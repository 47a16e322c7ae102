"""The built files of the web application are those of its sources, as far as can be told without Node."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_web_application_was_built_after_the_last_change() -> None:
    """Else: make web. `make web-check` builds it and compares each byte."""
    told = runpy.run_path(str(ROOT / "clients/web/digest.py"))["digest"]()
    assert told == (ROOT / "clients/web/built.sha256").read_text().strip()


def test_its_page_names_files_that_are_there() -> None:
    static = ROOT / "service/psoup_service/web/static"
    page, worker = (static / "index.html").read_text(), (static / "sw.js").read_text()
    built = [path.name for path in (static / "assets").iterdir()]
    assert len(built) == 2 and all(f"/assets/{name}" in page and f"/assets/{name}" in worker for name in built)
    assert "<script>" not in page and "style=" not in page
