"""The access token of a client: its sources, and the services that get it.

    ClientOptions(token=…)  >  PSOUP_TOKEN_FILE, a path  >  PSOUP_TOKEN, the token itself
                                └─ read again when it has changed

A token is neither part of an address nor a flag of a command, because other users can see these. It goes with every
call as metadata: to a service on this machine, at a Unix socket, or over TLS. It is never sent to another machine in
plain text. If PSOUP_TOKEN_ADDRESS is set, a token of the environment is sent only to the addresses in it.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import partial
from pathlib import Path

from psoup_client.channel.addresses import completed
from psoup_client.errors import InvalidRequest

TOKEN = "PSOUP_TOKEN"
"""The environment variable with the token itself."""
TOKEN_FILE = "PSOUP_TOKEN_FILE"
"""The environment variable with the path of a file that holds the token."""
TOKEN_ADDRESS = "PSOUP_TOKEN_ADDRESS"
"""The environment variable with the addresses that may get the environment's token."""

_HERE = re.compile(r"(unix:|unix-abstract:|(ipv4:)?127\.\d+\.\d+\.\d+:|localhost:|\[::1\]:|ipv6:\[::1\]:)")
_SENT = re.compile(r"[!-~]{1,4096}")
_LIKE_A_TOKEN = re.compile(r"\s*(psoup_|eyJ[\w-]*\.)")
"""Pattern of the beginnings of tokens: the service's own, and JSON Web Tokens of identity providers."""


Metadata = tuple[tuple[str, str | bytes], ...]


class CallToken:
    """The metadata of a client's calls, with its token.

    A token file that the environment names is read again when it has changed, so a new token in it replaces an expiring
    one. If the file cannot be read, the old token is sent.
    """

    def __init__(self, token: str | None, address: str, *, encrypted: bool) -> None:
        """Read the token. Raises the errors of `token_metadata`."""
        self._read = partial(token_metadata, token, address, encrypted=encrypted)
        self._path = "" if token is not None else os.environ.get(TOKEN_FILE, "")
        self._seen = _state(self._path)
        self._metadata = self._read()

    def metadata(self) -> Metadata:
        """Return the metadata of the next call. With a token file this takes some microseconds, to check the file's
        state.
        """
        if self._path and (state := _state(self._path)) != self._seen:
            with suppress(InvalidRequest):
                if token := self._read():
                    self._metadata = token
                    self._seen = state
        return self._metadata


def token_metadata(token: str | None, address: str, *, encrypted: bool) -> Metadata:
    """Make the metadata of every call; empty without a token. `token`: None for the environment's token, "" for none.

    Raises InvalidRequest for an unreadable or empty file, and for an invalid token. Also raises it if the token would
    go to another machine in plain text, or to an address that PSOUP_TOKEN_ADDRESS lacks.
    """
    origin = "the access token"
    if token is None:
        token, origin = _of_environment()
        if token:
            _check_address(origin, address)
    if not token:
        return ()
    if not _SENT.fullmatch(token):
        raise InvalidRequest(f"{origin} has spaces, line ends or other signs that no token has")
    if not encrypted and not _HERE.match(address):
        raise InvalidRequest(
            f"the access token would go to {address} in plain text, readable on the way: use https:// there, or leave"
            f" {TOKEN} and {TOKEN_FILE} out"
        )
    return (("authorization", f"Bearer {token}"),)


def _state(path: str) -> tuple[int, ...]:
    """Return the state of a file: its time, size and inode.

    It differs after a change. Returns () for a missing file.
    """
    try:
        facts = os.stat(path)
    except OSError:
        return ()
    return facts.st_mtime_ns, facts.st_size, facts.st_ino


def in_environment() -> bool:
    """Whether the environment has a token, or names a token file."""
    return bool(os.environ.get(TOKEN_FILE) or os.environ.get(TOKEN))


def _check_address(origin: str, address: str) -> None:
    """Raise InvalidRequest if PSOUP_TOKEN_ADDRESS does not have this address."""
    named = [name for text in os.environ.get(TOKEN_ADDRESS, "").split(",") if (name := text.strip())]
    try:
        addresses = [completed(name) for name in named]
    except ValueError as problem:
        raise InvalidRequest(f"{TOKEN_ADDRESS}: {problem}") from None
    if addresses and address not in addresses:
        raise InvalidRequest(
            f"{origin} is for {', '.join(addresses)}, and would go to {address}: add that to {TOKEN_ADDRESS}, with"
            f" commas between, or leave the token out"
        )


def _of_environment() -> tuple[str, str]:
    """Return the environment's token and the name of its source; two empty texts without one."""
    path = os.environ.get(TOKEN_FILE)
    if not path:
        return os.environ.get(TOKEN, ""), f"the access token in {TOKEN}"
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as problem:
        if _LIKE_A_TOKEN.match(path):  # a token in place of a path: no message may show it
            raise InvalidRequest(
                f"{TOKEN_FILE} takes the path of a file: its value begins as a token does, and names no file that can"
                f" be read; {TOKEN} takes a token itself"
            ) from None
        why = problem.strerror if isinstance(problem, OSError) else "it is not a text"
        raise InvalidRequest(f"{TOKEN_FILE} = {path!r} cannot be read: {why}") from None
    if not token:
        raise InvalidRequest(f"{TOKEN_FILE} = {path!r}: the file is empty, and should have an access token")
    return token, f"the access token in {TOKEN_FILE} = {path!r}"
