"""Settings that the user has not named: psoup.toml of the current directory, variables of an operator's own scripts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from psoup.errors import InvalidInput
from psoup_cli.service import load_settings
from psoup_client import Client, ClientOptions
from psoup_client.channel.token import token_metadata
from psoup_client.errors import InvalidRequest
from psoup_service import main
from psoup_service.process.settings import Settings
from psoup_service.process.settings_sources import load
from psoup_testing.services.command import Psoup
from psoup_testing.services.threaded_service import Serving

TOKEN = "psoup_secret"
SETTINGS = Settings.model_fields


@pytest.fixture
def found(psoup: Psoup, running: Serving, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A psoup.toml of the current directory that names the address of the service."""
    monkeypatch.delenv("PSOUP_ADDRESS")
    file = Path("psoup.toml")
    file.write_text(f'[client]\naddress = "{running.address}"\n')
    return file.absolute()


# The address ----------------------------------------------------------------------------------------------------


def test_an_address_of_the_current_directory_is_told_once(psoup: Psoup, found: Path, running: Serving) -> None:
    ran = psoup("status")
    assert ran.code == 0
    assert ran.err.count(str(found)) == 1
    assert f"the address {running.address} is from {found}, found in the current directory" in ran.err


@pytest.mark.parametrize("how", ["--address", "PSOUP_ADDRESS", "PSOUP_CONFIG"])
def test_an_address_that_was_named_is_not_told(
    psoup: Psoup, found: Path, running: Serving, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PSOUP_TOKEN", TOKEN)
    flags = ["--address", running.address] if how == "--address" else []
    if not flags:
        monkeypatch.setenv(how, {"PSOUP_ADDRESS": running.address, "PSOUP_CONFIG": str(found)}[how])
    ran = psoup("status", *flags)
    assert (ran.code, "found in" in ran.err) == (0, False)


@pytest.mark.parametrize(
    ("table", "variables"),
    [
        ('[client]\naddress = "https://elsewhere.example:7433"', {}),
        ('[client]\naddress = "127.0.0.1:1"', {}),
        ('[service]\nhost = "elsewhere.example"', {"PSOUP_PORT": "7433"}),
        ("[service]\nport = 1", {"PSOUP_HOST": "127.0.0.1"}),
        ('[service]\nlisten = ["127.0.0.1:1"]', {}),
        ('[service]\nsocket = "own.sock"', {}),
    ],
)
@pytest.mark.parametrize("variable", ["PSOUP_TOKEN", "PSOUP_TOKEN_FILE"])
def test_a_token_is_not_sent_to_an_address_of_the_current_directory(
    psoup: Psoup,
    found: Path,
    table: str,
    variables: dict[str, str],
    variable: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "token").write_text(TOKEN)
    monkeypatch.setenv(variable, TOKEN if variable == "PSOUP_TOKEN" else str(tmp_path / "token"))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found.write_text(table)
    for command in (["status"], ["stream", "list"], ["demo"]):
        ran = psoup(*command)
        words = " ".join(ran.err.replace("│", " ").split())
        assert (ran.code, "is not sent to an address that only such a file names" in words) == (2, True), ran.err
        assert "PSOUP_TOKEN_ADDRESS=" in words and TOKEN not in words


def test_a_token_goes_to_the_addresses_that_it_is_for(
    psoup: Psoup, found: Path, running: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PSOUP_TOKEN", TOKEN)
    monkeypatch.setenv("PSOUP_TOKEN_ADDRESS", f"https://psoup.example.org, {running.address}")
    assert psoup("status").code == 0
    found.write_text('[client]\naddress = "https://elsewhere.example"\n')
    ran = psoup("status")
    assert (ran.code, "would go to https://elsewhere.example:7433" in ran.err) == (1, True)
    monkeypatch.setenv("PSOUP_TOKEN_ADDRESS", "a:b")
    ran = psoup("status")
    assert (ran.code, "PSOUP_TOKEN_ADDRESS: 'a:b' is not an address" in ran.err) == (1, True)


def test_the_sdk_sends_a_token_of_the_environment_where_it_belongs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PSOUP_TOKEN", TOKEN)
    monkeypatch.setenv("PSOUP_TOKEN_ADDRESS", "localhost,unix:/run/psoup.sock")
    sent = (("authorization", f"Bearer {TOKEN}"),)
    assert token_metadata(None, "localhost:7433", encrypted=False) == sent
    assert token_metadata(None, "unix:/run/psoup.sock", encrypted=False) == sent
    with pytest.raises(InvalidRequest, match=r"is for localhost:7433, unix:/run/psoup\.sock, and would go to") as told:
        Client("127.0.0.1:7433")
    assert TOKEN not in str(told.value)
    Client("127.0.0.1:7433", options=ClientOptions(token=TOKEN)).close()  # the program says so itself
    Client("127.0.0.1:7433", options=ClientOptions(token="")).close()


# The service ----------------------------------------------------------------------------------------------------


def test_what_a_file_of_the_current_directory_sets_is_told_before_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "psoup.toml"
    file.write_text('[service]\nport = 0\nfunctions = ["fraud.py"]\n')
    (notice,) = load(environ={}).notices
    told = f"settings are from {file}, found in the current directory: port = 0, functions = 'fraud.py'"
    assert notice == f"{told} (code that the service runs)"
    assert load(config=file, environ={}).notices == load(environ={"PSOUP_CONFIG": str(file)}).notices == ()
    load_settings({}, None)
    assert capsys.readouterr().err.count(told) == 1

    def serve(settings: object, **_: object) -> int:
        assert told in capsys.readouterr().err
        return 7

    monkeypatch.setattr(main, "serve", serve)
    assert main.main() == 7


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("PSOUP_PROT", "; did you mean PSOUP_PORT?"),
        ("PSOUP_MEMORY_MB", "; did you mean PSOUP_MEMORY_MIB?"),
        ("PSOUP_BACKUP_BUCKET", ""),
        ("PSOUP_VERSION", ""),
        ("PSOUP_IMAGE", ""),
        ("PSOUP_", ""),
    ],
)
def test_a_variable_of_another_program_is_ignored_and_told(variable: str, hint: str) -> None:
    loaded = load(environ={variable: "5", "PSOUP_READERS": "3"})
    assert loaded.settings.readers == 3
    assert loaded.notices == (f"the variable {variable} is not a setting of the service, and is ignored{hint}",)


def test_the_variables_of_all_commands_are_known() -> None:
    """Each that the sources name is a setting, or one that a client reads."""
    root = Path(__file__).resolve().parents[3]
    files = [path for folder in ("clients", "service") for path in (root / folder).rglob("*.py")]
    named = {name for path in files for name in re.findall(r'"(PSOUP_[A-Z_]*[A-Z])"', path.read_text("utf-8"))}
    assert {"PSOUP_TOKEN_ADDRESS", "PSOUP_STORE"} <= named
    others = {name for name in named - {"PSOUP_CONFIG"} if name.removeprefix("PSOUP_").lower() not in SETTINGS}
    assert load(environ=dict.fromkeys(others, "1")).notices == ()


@pytest.mark.parametrize(("flags", "toml"), [({"prot": 1}, ""), ({}, "[service]\nprot = 1\n")])
def test_a_misspelt_setting_of_a_file_or_a_flag_is_refused(flags: dict[str, object], toml: str, tmp_path: Path) -> None:
    file = tmp_path / "psoup.toml"
    file.write_text(toml)
    with pytest.raises(InvalidInput, match="did you mean 'port'"):
        load(flags, config=file, environ={})


def test_the_service_of_the_demo_tells_it_too(psoup: Psoup, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own output goes to a log that is shown only if it fails."""
    Path("psoup.toml").write_text('[service]\nfunctions = ["fraud.py"]\n')
    monkeypatch.setattr("psoup_cli.commands.service.demo._started", lambda *_: (_ for _ in ()).throw(typer.Exit(9)))
    ran = psoup("demo", "--serve", "--once")
    assert (ran.code, ran.err.count("functions = 'fraud.py' (code that the service runs)")) == (9, 1)


def test_the_command_says_it_on_standard_error(psoup: Psoup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PSOUP_DEPLOYED_BY", "ansible")
    ran = psoup("config", "show", "--json")
    assert (ran.code, ran.err.count("PSOUP_DEPLOYED_BY"), "PSOUP_DEPLOYED_BY" in ran.out) == (0, 1, False)
