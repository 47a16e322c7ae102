"""The files of deploy/ name settings, options, paths and users that are there, and the same ones everywhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer.main

from psoup_cli.app import app
from psoup_service.process.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CLIENT = {"PSOUP_ADDRESS", "PSOUP_CA", "PSOUP_TOKEN_FILE", "PSOUP_CONFIG"}
"""Variables of commands; each setting has one as well."""


def text(name: str) -> str:
    return (DEPLOY / name).read_text()


def test_variables_of_the_image_and_the_composition_are_settings() -> None:
    settings = {f"PSOUP_{name.upper()}" for name in Settings.model_fields} | CLIENT
    for name in ("Containerfile", "compose.yaml", "psoup.service", "psoup-backup.service"):
        variables = set(re.findall(r"\bPSOUP_[A-Z_]+\b", text(name)))
        assert variables <= settings, name
        assert variables or name == "psoup.service"
    assert set(tomllib.loads(text("psoup.toml"))["service"]) <= set(Settings.model_fields)


def test_the_settings_of_the_unit_are_taken(tmp_path: Path) -> None:
    given = tomllib.loads(text("psoup.toml"))
    settings = Settings(**given["service"])
    assert [str(place) for place in settings.listeners()]
    assert given["client"]["address"] in given["service"]["listen"]


@pytest.mark.parametrize("name", ["Containerfile", "psoup.service", "psoup-backup.service", "compose.yaml"])
def test_commands_and_their_options_are_there(name: str) -> None:
    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    lines = re.findall(r"(?:/opt/psoup/bin/)?psoup((?: [a-z]+)+(?: --[a-z-]+(?: [^-\s]\S*)?)*)", text(name))
    lists = re.findall(r'\["psoup"((?:, "[^"]+")+)\]', text(name))
    seen = 0
    for words in [line.split() for line in lines] + [re.findall(r'"([^"]+)"', line) for line in lists]:
        if words[0] not in commands:
            continue  # prose
        command = commands[words[0]]
        command = command.commands[words[1]] if hasattr(command, "commands") else command
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options, words
        seen += 1
    assert seen


def test_the_image_runs_as_the_user_of_the_composition() -> None:
    image, composition = text("Containerfile"), text("compose.yaml")
    (user,) = re.findall(r"^USER (\S+)$", image, re.MULTILINE)
    assert user != "0:0" and composition.count(f'user: "{user}"') == 2
    assert f"--uid {user.partition(':')[0]} --gid {user.partition(':')[2]}" in image
    assert composition.count("read_only: true") == composition.count("cap_drop: [ALL]") == 2
    (health,) = re.findall(r"^    CMD (\[.*\])$", image, re.MULTILINE)
    assert '"psoup", "status", "--ready"' in health
    volume = re.search(r"^VOLUME (\S+)$", image, re.MULTILINE)
    assert volume is not None and f"data:{volume[1]}" in composition
    assert f"PSOUP_DATA_DIR={volume[1]}/data" in image


def test_the_image_has_all_that_the_wheel_is_built_of() -> None:
    lines = [line[1:] for line in text("Containerfile.dockerignore").splitlines() if line.startswith("!")]
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = wheel["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    for path in [*needed, wheel["project"]["readme"], *wheel["project"]["license-files"], "pyproject.toml"]:
        assert any(
            Path(path).full_match(keep) if hasattr(Path, "full_match") else _within(path, keep) for keep in lines
        )


def _within(path: str, keep: str) -> bool:
    return re.fullmatch(keep.replace("*", "[^/]*") + "(/.*)?", path) is not None


def test_units_are_valid(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    for name in ("psoup.service", "psoup-backup.service", "psoup-backup.timer"):
        content = text(name).replace("/opt/psoup/bin/psoup", "/bin/true").replace("User=psoup", "User=daemon")
        (tmp_path / name).write_text(content)
    units = [str(tmp_path / name) for name in ("psoup.service", "psoup-backup.timer")]
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if str(tmp_path) in line or "psoup" in line]
    assert (done.returncode, said) == (0, []), done.stderr


def test_the_watchdog_of_the_unit_leaves_time_for_a_long_run() -> None:
    unit = text("psoup.service")
    assert "Type=notify" in unit and "NotifyAccess=main" in unit
    assert "WatchdogSec=3min" in unit, "an event of a million queries takes some tens of seconds"
    stop = re.search(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert stop is not None and int(stop[1]) >= 2 * Settings().drain_s
