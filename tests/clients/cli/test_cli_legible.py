"""Every command removes control characters from clients' texts in its output for people."""

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from psoup_cli.legible import legible, legible_json, legible_lines
from psoup_cli.output import print_pairs, print_table
from psoup_testing.services.command import ROWS, Psoup

NASTY = "a\x1b[2J\r\nb\x07\x9b31m\u202e\u2028 é\t"
ONE_LINE = r"a\x1b[2J\x0d\x0ab\x07\x9b31m\u202e\u2028 é\x09"


def test_control_characters_are_escaped_and_others_are_not() -> None:
    assert legible(NASTY) == ONE_LINE
    assert legible_lines(NASTY) == "a\\x1b[2J\\x0d\nb\\x07\\x9b31m\\u202e\\u2028 é\t"
    text = json.dumps(NASTY, ensure_ascii=False)
    assert json.loads(legible_json(text)) == NASTY
    assert legible(legible_json(text)) == legible_json(text)


def test_names_of_columns_are_shown_as_values_are() -> None:
    out = io.StringIO()
    with redirect_stdout(out):
        print_table([NASTY], [(NASTY,)])
        print_pairs([(NASTY, NASTY)])
    assert out.getvalue().count(ONE_LINE) == 4


def test_no_command_for_people_prints_what_a_terminal_would_obey(psoup: Psoup, filled: str, tmp_path: Path) -> None:
    key = f"{filled} {NASTY}"
    sql = f"""SELECT id AS "{NASTY}" FROM {filled} WHERE concat(id, '{NASTY}') <> '{NASTY}'"""
    assert psoup("register", sql, "--key", key).code == 0
    offered = tmp_path / "offered.json"
    offered.write_text(json.dumps(ROWS[-1]) + "\n")
    told = [
        psoup(*words)
        for words in (
            ("explain", "--key", key),
            ("matches", filled, "0"),
            ("match", filled, str(offered)),
            ("why", "--key", key, "0"),
            ("why", "--key", key, "1", "--json"),
            ("invoke", "--key", key, "--key", key),
            ("ask", f'SELECT "{NASTY}" FROM {filled}'),
            ("sql", f"SELECT '{NASTY}"),
        )
    ]
    for command in told:
        assert any(part in command.out + command.err for part in ("\\x1b[2J", "\\u001b[2J")), command
        for text in (command.out, command.err):
            assert text == legible_lines(text), command


@pytest.mark.parametrize("text", ["", "plain é 日本\u00a0\u200d"])
def test_what_is_no_control_character_stays(text: str) -> None:
    assert legible(text) == legible_lines(text) == legible_json(text) == text
