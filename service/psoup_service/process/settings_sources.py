"""Sources of the service's settings, the origin of each, and the message for a refused setting.

    flag  >  environment PSOUP_NAME  >  table [service] of psoup.toml  >  default

An unknown key is an error that names the nearest known key: a misspelt limit that is silently ignored is worse than a
service that does not start. An unknown variable gives a notice only, because the operator's own scripts may have
variables of such names. Notices also list the settings from a file of the current directory that no option named. The
composition root reads the settings once, and prints the notices before it uses them.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from psoup.errors import InvalidInput
from psoup_service.process.listen_settings import TOGETHER
from psoup_service.process.ownership import writable_by_others
from psoup_service.process.setting_values import allowed
from psoup_service.process.settings import Settings

PREFIX = "PSOUP_"
CONFIG_FILE = "psoup.toml"
CONFIG_VARIABLE = "PSOUP_CONFIG"
TABLE = "service"
_OTHER_TABLES = frozenset({"client"})
_NOT_OURS = frozenset(
    {
        CONFIG_VARIABLE,
        "PSOUP_ADDRESS",
        "PSOUP_CDC_FROM",
        "PSOUP_KAFKA_BROKERS",
        "PSOUP_URL",
        "PSOUP_TIMEOUT",
        "PSOUP_CA",
        "PSOUP_CERT",
        "PSOUP_KEY",
        "PSOUP_TOKEN",
        "PSOUP_TOKEN_FILE",
        "PSOUP_TIMEZONE",
        "PSOUP_TOKEN_ADDRESS",
        "PSOUP_STORE",
    }
)
_NEAR = 0.75
"""The least similarity of two names, from 0 to 1, at which one counts as a misspelling of the other."""
_NOT_OURS_PREFIXES = ("PSOUP_TEST_", "PSOUP_BENCH_")
"""Variables with our prefix that belong to clients, tests and benchmarks."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting for `psoup config show`. `origin` is "flag", "PSOUP_…", a file's path, or "default"."""

    name: str
    value: Any
    origin: str
    description: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings and the origin of each."""

    settings: Settings
    origins: Mapping[str, str]
    file: str | None = None
    """The absolute path of the settings file that was read."""
    notices: tuple[str, ...] = ()
    """Sentences for the operator, to be printed before the settings are used."""

    def show(self) -> list[Setting]:
        """All settings in their order, with their origins."""
        return [
            Setting(name, getattr(self.settings, name), self.origins[name], field.description or "")
            for name, field in Settings.model_fields.items()
        ]


def load(
    flags: Mapping[str, Any] | None = None,
    *,
    config: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Loaded:
    """Merge the sources. `flags` that are None were not given. `config` must exist; by default it is PSOUP_CONFIG, or
    ./psoup.toml if that exists. Raises InvalidInput that names the setting, the value and its origin.
    """
    environ = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    origins = dict.fromkeys(Settings.model_fields, "default")
    path = _settings_file(config, environ)
    of_file = {} if path is None else _from_file(path)
    origin_of_variable, of_environment = _from_environment(environ)
    unknown = [name for name in of_environment if name not in Settings.model_fields]
    notices = [_unknown_variable(origin_of_variable(name), name) for name in unknown]
    if path is not None and of_file and not _named(config, environ):
        notices.append(_found(path, of_file))
    for origin_of, source in (
        (lambda name: str(path), of_file),
        (origin_of_variable, {name: value for name, value in of_environment.items() if name not in unknown}),
        (lambda name: "flag", {name: value for name, value in (flags or {}).items() if value is not None}),
    ):
        for name, value in source.items():
            if name not in Settings.model_fields:
                raise _unknown(origin_of(name), name)
            values[name] = value
            origins[name] = origin_of(name)
    try:
        return Loaded(Settings(**values), origins, None if path is None else str(path.absolute()), tuple(notices))
    except ValidationError as problem:
        first = problem.errors()[0]
        name = str(first["loc"][0] if first["loc"] else first["ctx"]["field"])
        of_ours = first["type"] in ("value_error", TOGETHER)
        why = (
            first["msg"].removeprefix("Value error, ")
            if of_ours
            else f"it takes {allowed(Settings.model_fields[name])}"
        )
        raise InvalidInput(
            f"{name} = {_shown(values.get(name))} (from {origins.get(name, '?')}) is refused: {why}",
            reason="SETTING",
            field=name,
        ) from problem


def _shown(value: Any) -> str:
    """A value as an operator writes it: a list without Python's brackets and quotes."""
    return repr(", ".join(map(str, value)) if isinstance(value, list | tuple) else value)


def _named(config: Path | None, environ: Mapping[str, str]) -> Path | str:
    """The settings file that a flag or the environment names; "" if none does."""
    return config or environ.get(CONFIG_VARIABLE) or ""


def _settings_file(config: Path | None, environ: Mapping[str, str]) -> Path | None:
    """The file that was named, or the file in the current directory, unless another user may write it."""
    named = _named(config, environ)
    if named:
        return Path(named)
    path = Path(CONFIG_FILE)
    if not path.is_file():
        return None
    why = writable_by_others(path)
    if why is not None:
        raise InvalidInput(
            f"the settings file {path.absolute()} is not read: {why}; if it is meant, name it with --config or"
            f" {CONFIG_VARIABLE}, or make it your own",
            reason="SETTING",
        )
    return path


def _from_file(path: Path) -> dict[str, Any]:
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except OSError as problem:
        raise InvalidInput(
            f"the settings file {path} cannot be read: {problem.strerror}", reason="SETTING"
        ) from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise InvalidInput(f"the settings file {path} is not TOML: {problem}", reason="SETTING") from problem
    for name in set(tables) - _OTHER_TABLES - {TABLE}:
        raise InvalidInput(
            f"{path} has {name!r} at its top level; the service's settings stand in the table [{TABLE}], those"
            " of client commands in [client]",
            reason="UNKNOWN_SETTING",
            field=name,
        )
    table = tables.get(TABLE, {})
    if not isinstance(table, dict):
        raise InvalidInput(f"{path}: {TABLE} must be a table, [{TABLE}]", reason="SETTING", field=TABLE)
    return table


def _from_environment(environ: Mapping[str, str]) -> tuple[Any, dict[str, Any]]:
    values = {
        variable.removeprefix(PREFIX).lower(): value
        for variable, value in environ.items()
        if variable.startswith(PREFIX) and variable not in _NOT_OURS and not variable.startswith(_NOT_OURS_PREFIXES)
    }
    return (lambda name: PREFIX + name.upper()), values


def _unknown(origin: str, name: str) -> InvalidInput:
    near = _nearest(name)
    hint = f"did you mean {near!r}?" if near else "psoup config show lists all settings"
    return InvalidInput(f"there is no setting {name!r} (from {origin}); {hint}", reason="UNKNOWN_SETTING", field=name)


def _unknown_variable(variable: str, name: str) -> str:
    near = _nearest(name)
    hint = f"; did you mean {PREFIX}{near.upper()}?" if near else ""
    return f"the variable {variable} is not a setting of the service, and is ignored{hint}"


def _nearest(name: str) -> str:
    """The setting that `name` is a misspelling of, by its letters; "" if none is near."""
    return next(iter(get_close_matches(name, Settings.model_fields, 1, _NEAR)), "")


def _found(path: Path, values: Mapping[str, Any]) -> str:
    """The notice about the settings of a file that the operator has not named."""
    settings = ", ".join(
        f"{name} = {_shown(value)}{' (code that the service runs)' if name == 'functions' else ''}"
        for name, value in values.items()
    )
    return f"settings are from {path.absolute()}, found in the current directory: {settings}"
