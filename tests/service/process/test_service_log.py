"""Values of clients in the log: no characters that a terminal would obey."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from psoup_service.process import log

NASTY = "a\x1b[2J\r\nb\x07\x9b31m\u202e\u2028 é\t\ud800"
SHOWN = r"a\x1b[2J\r\nb\x07\x9b31m\u202e\u2028 é" + "\t" + r"\ud800"


@pytest.fixture(autouse=True)
def own_handlers() -> Iterator[None]:
    root = logging.getLogger()
    before = (root.handlers, root.level)
    yield
    root.handlers, level = before
    root.setLevel(level)


def written(form: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, say: object = None) -> str:
    monkeypatch.setenv("NO_COLOR", "1")
    log.configure(form, "info")
    logger = logging.getLogger("psoup_service.test")
    try:
        raise ValueError(NASTY + "\n2026-01-01 [info] forged")
    except ValueError:
        logger.exception("said %s", NASTY, extra={"producer": NASTY, "count": 3, "listed": [NASTY], "nobody": None})
    return capsys.readouterr().err


def test_the_console_shows_control_characters_as_escapes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = written("console", capsys, monkeypatch)
    first, *others = text.splitlines()
    assert f"said {SHOWN}" in first
    assert "producer='a\\" in first
    assert "count=3" in first
    assert "nobody=None" in first
    assert "Traceback" in others[0]
    assert all(line.startswith("    ") for line in others)
    assert any("ValueError: a\\x1b[2J" in line for line in others)
    assert all(character.isprintable() or character in "\n\t" for character in text)


def test_a_terminal_gets_colours_and_nothing_else(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    log.configure("console", "info")
    logging.getLogger("psoup_service.test").info("said", extra={"producer": NASTY})
    text = capsys.readouterr().err
    assert "\x1b[" in text
    assert "\x1b[2J" not in text
    assert "\\x1b[2J" in text


def test_json_has_them_escaped_by_itself(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    text = written("json", capsys, monkeypatch)
    assert len(text.splitlines()) == 1
    assert json.loads(text)["producer"] == NASTY
    assert "\x1b" not in text


@pytest.mark.seeded("gRPC writes a traceback for each call that is taken back at the wrong moment")
def test_entries_of_grpc_are_seldom_and_those_of_the_service_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    """A flood of calls that are taken back wrote a traceback each."""
    log.configure("json", "info")
    for _ in range(1_000):
        logging.getLogger("grpc._cython.cygrpc").error("failed")
        logging.getLogger("psoup_service.test").error("seen")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert sum(line["event"] == "seen" for line in lines) == 1_000
    few = [line for line in lines if line["event"] == "failed"]
    assert 20 <= len(few) < 200
