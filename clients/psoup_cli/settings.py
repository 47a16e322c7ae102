"""Where the client commands look for the service: --address > PSOUP_ADDRESS > where `psoup serve` would listen here.

The last are the service's own settings `host` and `port` (PSOUP_HOST, PSOUP_PORT, psoup.toml, defaults), so that
`psoup serve` and `psoup status` in one shell meet without a word. Only these two are looked at; the service checks
the rest.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from psoup_client.client import DEFAULT_ADDRESS, DEFAULT_TIMEOUT

FILE_VARIABLE = "PSOUP_CONFIG"
FILE = "psoup.toml"


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """What a client command uses."""

    address: str
    """"host:port" of the service."""

    timeout_seconds: float
    """Seconds until a call is given up; above 0."""

    origin: str
    """Where the address came from."""


def client_settings(address: str | None = None, timeout: float | None = None) -> ClientSettings:
    """The settings of one command; the arguments are its flags. Raises typer.BadParameter, which is exit code 2."""
    origin, chosen = _address(address)
    host, colon, port = chosen.rpartition(":")
    if not (colon and host and port.isdigit() and 0 < int(port) < 65_536):
        raise typer.BadParameter(f"{origin}: {chosen!r} is no address; write HOST:PORT, for instance {DEFAULT_ADDRESS}")
    return ClientSettings(chosen, DEFAULT_TIMEOUT if timeout is None else timeout, origin)


def _address(flag: str | None) -> tuple[str, str]:
    """(where it came from, "host:port")."""
    if flag is not None:
        return "--address", flag
    if os.environ.get("PSOUP_ADDRESS"):
        return "PSOUP_ADDRESS", os.environ["PSOUP_ADDRESS"]
    default_host, _, default_port = DEFAULT_ADDRESS.rpartition(":")
    host_origin, host = _service_setting("host", default_host)
    port_origin, port = _service_setting("port", default_port)
    origin = host_origin if port_origin == "default" else port_origin
    return origin, f"{host}:{port}"


def _service_setting(name: str, default: str) -> tuple[str, str]:
    variable = f"PSOUP_{name.upper()}"
    if os.environ.get(variable):
        return variable, os.environ[variable]
    path, content = _file()
    if name in content:
        return path, str(content[name])
    return "default", default


def _file() -> tuple[str, dict[str, Any]]:
    path = Path(os.environ.get(FILE_VARIABLE) or FILE)
    try:
        return str(path), tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if os.environ.get(FILE_VARIABLE):
            raise typer.BadParameter(f"{FILE_VARIABLE} names {path}, which is no file") from None
        return str(path), {}
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise typer.BadParameter(f"{path} cannot be read: {problem}") from None
