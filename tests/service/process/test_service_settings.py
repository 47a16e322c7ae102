"""The sources of settings, and refused settings."""

from pathlib import Path

import pytest

from psoup.errors import InvalidInput
from psoup_service.process.settings import Settings
from psoup_service.process.settings_sources import load


def test_flag_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    file = tmp_path / "psoup.toml"
    file.write_text("[service]\nport = 1\nreaders = 3\ndrain_s = 2\n[client]\naddress = 'x:1'\n")
    environ = {"PSOUP_PORT": "2", "PSOUP_READERS": "4", "PSOUP_ADDRESS": "x:1", "PSOUP_TEST_SEED": "1", "HOME": "/"}
    loaded = load({"port": 3, "readers": None}, config=file, environ=environ)
    assert (loaded.settings.port, loaded.settings.readers, loaded.settings.drain_s) == (3, 4, 2.0)
    origins = {one.name: one.origin for one in loaded.show()}
    assert origins["port"] == "flag"
    assert origins["readers"] == "PSOUP_READERS"
    assert origins["drain_s"] == str(file)
    assert origins["host"] == "default"
    assert all(one.description for one in loaded.show())


def test_the_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(environ={}).settings == Settings()
    Path("psoup.toml").write_text("service.port = 5")
    assert load(environ={}).settings.port == 5
    other = tmp_path / "other.toml"
    other.write_text("service.port = 6")
    assert load(environ={"PSOUP_CONFIG": str(other)}).settings.port == 6


@pytest.mark.parametrize(
    ("flags", "environ", "toml", "said"),
    [
        ({"prot": 1}, {}, "", "did you mean 'port'"),
        ({"nope": 1}, {}, "", "psoup config show lists all settings"),
        ({}, {}, "[service]\nmemory_mb = 1", "'memory_mib'"),
        ({}, {}, "port = 1", r"\[service\]"),
        ({}, {}, "service = 1", "must be a table"),
        ({}, {}, "= 1", "is not TOML"),
        ({"port": 99_999}, {}, "", "port = 99999 .*flag.* it takes a whole number from 0 to 65,535$"),
        (
            {},
            {"PSOUP_READERS": "many"},
            "",
            "readers = 'many' .*PSOUP_READERS.* it takes a whole number from 1 to 256$",
        ),
        ({}, {"PSOUP_MEMORY_MIB": "-1"}, "", "memory_mib = '-1' .* it takes a whole number, 0 or more$"),
        ({}, {"PSOUP_RECEIVE_S": "soon"}, "", "it takes a number over 0, 3,600 at most$"),
        ({}, {"PSOUP_LOG_LEVEL": "loud"}, "", "it takes debug, info, warning or error$"),
        ({}, {}, "[service]\nport = true", "port = True .* it takes a whole number"),
        ({}, {}, "[service]\ndata_dir = 5", "data_dir = 5 .* it takes a text that is not empty$"),
        ({"host": "0.0.0.0"}, {}, "", "loopback"),
        ({"host": "example.org"}, {}, "", "loopback"),
        ({"log_format": "xml"}, {}, "", "log_format"),
    ],
)
def test_what_is_refused_says_why(
    tmp_path: Path, flags: dict[str, object], environ: dict[str, str], toml: str, said: str
) -> None:
    file = tmp_path / "psoup.toml"
    file.write_text(toml)
    with pytest.raises(InvalidInput, match=said):
        load(flags, config=file, environ=environ)


def test_a_missing_file_is_an_error_when_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        load(config=tmp_path / "nope.toml", environ={})


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.1.2.3"])
def test_loopback_may_be_listened_on(host: str) -> None:
    assert load({"host": host}, environ={}).settings.host == host


def test_sizes_reach_the_engine() -> None:
    settings = load({"memory_mib": 7, "max_ahead_s": 3}, environ={}).settings
    assert settings.engine_config().memory_bytes == 7 * 1024 * 1024
    assert settings.engine_config().max_ahead == 3_000_000


def test_a_settings_file_of_the_current_directory_that_others_may_write_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "psoup.toml"
    file.write_text("[service]\nport = 1\n")
    assert (load(environ={}).file, load(environ={}).settings.port) == (str(file), 1)
    file.chmod(0o666)
    with pytest.raises(InvalidInput, match="everybody may write it; if it is meant, name it"):
        load(environ={})
    for found in (load(environ={"PSOUP_CONFIG": "psoup.toml"}), load(config=file, environ={})):
        assert (found.file, found.settings.port) == (str(file), 1)
    file.chmod(0o644)
    monkeypatch.setattr("os.geteuid", lambda: file.stat().st_uid + 1)
    if file.stat().st_uid:  # root's may be read by all
        with pytest.raises(InvalidInput, match="it belongs to another user"):
            load(environ={})
    file.unlink()
    assert load(environ={}).file is None
