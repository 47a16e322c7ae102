"""Sources of the address and the timeout of client commands.

    address   --address > PSOUP_ADDRESS > [client] address of psoup.toml > where `psoup serve` would listen here
    timeout   --timeout > PSOUP_TIMEOUT > [client] timeout_seconds of psoup.toml > 30 seconds

The address of `psoup serve` follows from the service's settings `listen` (its first place on this machine), `socket`,
or `host` and `port`. So `psoup serve` and `psoup status` in one shell agree without options. Only these settings of the
service are read; the service checks the rest.
"""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from psoup_client.channel.addresses import separated, target
from psoup_client.channel.token import TOKEN_ADDRESS, in_environment
from psoup_client.client import DEFAULT_ADDRESS, DEFAULT_TIMEOUT
from psoup_service.process.ownership import writable_by_others

FILE_VARIABLE = "PSOUP_CONFIG"
FILE = "psoup.toml"
_HERE = re.compile(r"unix:|(https://)?(127\.|localhost:|\[::1\])")
KEYS = ("address", "timeout_seconds")


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Settings of a client command."""

    address: str
    """"host:port" or "https://host:port" of the service, or "unix:" and the path of its socket; several with commas."""

    timeout_seconds: float
    """The default deadline of a call in seconds, above 0."""

    origins: dict[str, str]
    """The source of each field above: the flag, the variable, the file, or "default"."""

    found_file: str = ""
    """The settings file that gave the address, if it was found in the current directory. "" if the user named it."""


def client_settings(
    address: str | None = None, timeout: float | None = None, config: str | None = None
) -> ClientSettings:
    """Load the settings of one command from its flags, the environment and the file.

    Raises typer.BadParameter (exit code 2).
    """
    path, content = _file(config)
    client, service = _table(path, content, "client"), _table(path, content, "service")
    unknown = sorted(set(client) - set(KEYS))
    if unknown:
        raise typer.BadParameter(f"{path}: there is no setting {unknown[0]!r} in [client]; it has {', '.join(KEYS)}")
    chosen_address = (
        _first(("--address", address), _variable("PSOUP_ADDRESS"), (path, client.get("address")))
        or _of_service(path, service)
        or ("default", DEFAULT_ADDRESS)
    )
    chosen_timeout = _first(
        ("--timeout", timeout), _variable("PSOUP_TIMEOUT"), (path, client.get("timeout_seconds"))
    ) or ("default", DEFAULT_TIMEOUT)
    was_found = chosen_address[0] == path and not _named(config)
    return ClientSettings(
        _checked_address(*chosen_address),
        _checked_timeout(*chosen_timeout),
        {"address": chosen_address[0], "timeout_seconds": chosen_timeout[0]},
        str(Path(path).absolute()) if was_found else "",
    )


def address_notice(settings: ClientSettings) -> str:
    """Return the notice that a file of the current directory gave the address; "" if none did.

    Raises typer.BadParameter if the environment has a token without PSOUP_TOKEN_ADDRESS. The directory may come from
    elsewhere, and the token may be meant for another service. With PSOUP_TOKEN_ADDRESS the client checks the address.
    """
    if not settings.found_file:
        return ""
    where = f"the address {settings.address} is from {settings.found_file}, found in the current directory"
    if in_environment() and not os.environ.get(TOKEN_ADDRESS):
        raise typer.BadParameter(
            f"{where}, and the access token of the environment is not sent to an address that only such a file names:"
            f" say --address {settings.address}, or set {TOKEN_ADDRESS}={settings.address} beside the token"
        )
    return where


def _first(*candidates: tuple[str, Any]) -> tuple[str, Any] | None:
    return next((candidate for candidate in candidates if candidate[1] is not None), None)


def _variable(name: str) -> tuple[str, Any]:
    return name, os.environ.get(name) or None


def _of_service(path: str, table: dict[str, Any]) -> tuple[str, str] | None:
    """Return the source and the address at which a service started here would listen. None without such a setting."""
    listen = _first(_variable("PSOUP_LISTEN"), (path, table.get("listen") or None))
    if listen is not None:
        places = listen[1].split(",") if isinstance(listen[1], str) else listen[1]
        near = next((place.strip() for place in map(str, places) if _HERE.match(place.strip())), None)
        return None if near is None else (listen[0], near)
    socket = _first(_variable("PSOUP_SOCKET"), (path, table.get("socket") or None))
    if socket is not None:
        return socket[0], f"unix:{socket[1]}"
    host = _first(_variable("PSOUP_HOST"), (path, table.get("host")))
    port = _first(_variable("PSOUP_PORT"), (path, table.get("port")))
    if host is None and port is None:
        return None
    default_host, _, default_port = DEFAULT_ADDRESS.rpartition(":")
    origins = [part[0] for part in (port, host) if part is not None]
    origin = path if path in origins else origins[0]  # if the file gives one part, it counts as the source of both
    return origin, f"{host[1] if host else default_host}:{port[1] if port else default_port}"


def _named(config: str | None) -> str:
    """Return the settings file that a flag or the environment names; "" without one."""
    return config or os.environ.get(FILE_VARIABLE) or ""


def _file(config: str | None) -> tuple[str, dict[str, Any]]:
    named = _named(config)
    path = Path(named or FILE)
    try:
        why = None if named else writable_by_others(path)
        if why is not None:
            raise typer.BadParameter(
                f"the settings file {path.absolute()} is not read: {why}; if it is meant, name it by"
                f" {FILE_VARIABLE}, or make it your own"
            )
        return str(path), tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if named:
            raise typer.BadParameter(f"the settings file {path} does not exist") from None
        return str(path), {}
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise typer.BadParameter(f"the settings file {path} cannot be read: {problem}") from None


def _table(path: str, content: dict[str, Any], name: str) -> dict[str, Any]:
    table = content.get(name, {})
    if not isinstance(table, dict):
        raise typer.BadParameter(f"{path}: {name} must be a table, [{name}]")
    return table


def _checked_address(origin: str, value: Any) -> str:
    try:
        addresses = separated(str(value))
        for address in addresses:
            target(address)
        return ",".join(addresses)
    except ValueError as problem:
        raise typer.BadParameter(f"{origin}: {problem}") from None


def _checked_timeout(origin: str, value: Any) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = 0.0
    if not 0 < seconds <= 1e6:
        raise typer.BadParameter(f"{origin}: {value!r} is not a timeout; give seconds above 0")
    return seconds
