"""A new token, checked: its holder's name, roles, and patterns of streams."""

from __future__ import annotations

import re
from collections.abc import Sequence

from psoup.errors import InvalidInput
from psoup.events.access import AccessToken
from psoup.model import DEFAULT_TENANT
from psoup_service.gate.roles import PRODUCER, ROLES
from psoup_service.gate.tokens import digest_of, new_token

_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,100}")
_PATTERN = re.compile(r"[\w*?]{1,128}")
_MOST_PATTERNS = 16
_LATEST = 253_402_300_799_000_000
"""The latest expiry of a token, in microseconds since 1970: 9999-12-31 23:59:59 UTC."""


def issued(
    name: str,
    roles: Sequence[str],
    streams: Sequence[str] = (),
    expires: int = 0,
    *,
    tenant: str = DEFAULT_TENANT,
) -> tuple[str, AccessToken]:
    """A new token: its text, which is shown once, and its stored facts.

    `expires`: microseconds since 1970, 0 for never. Raises InvalidInput for an invalid name, role, pattern or expiry.
    """
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"name is {name[:100]!r}; name the token's holder, in 1 to 100 characters",
            reason="TOKEN_NAME",
            field="name",
        )
    unknown = next((role for role in roles if role not in ROLES), None)
    if unknown is not None or not roles:
        problem = "roles is empty" if unknown is None else f"there is no role {unknown[:40]!r}"
        raise InvalidInput(f"{problem}; the roles are {', '.join(ROLES)}", reason="UNKNOWN_ROLE", field="roles")
    if not 0 <= expires <= _LATEST:
        raise InvalidInput("seconds is not a time that a token can last; 0 is for ever", field="seconds")
    _check_patterns(roles, streams)
    text, token_id = new_token()
    chosen = tuple(role for role in ROLES if role in roles)
    patterns = tuple(pattern.lower() for pattern in streams)
    return text, AccessToken(token_id, name, chosen, digest_of(text), tenant, patterns, expires=expires)


def _check_patterns(roles: Sequence[str], streams: Sequence[str]) -> None:
    if streams and set(roles) != {PRODUCER}:
        raise InvalidInput(
            "patterns of streams are for the role producer alone; other roles read all streams of their tenant",
            reason="STREAM_PATTERNS",
            field="streams",
        )
    wrong = next((pattern for pattern in streams[: _MOST_PATTERNS + 1] if not _PATTERN.fullmatch(pattern)), None)
    if wrong is not None or len(streams) > _MOST_PATTERNS:
        problem = f"{len(streams):,} are given" if wrong is None else f"{wrong[:128]!r} is none"
        raise InvalidInput(
            f"patterns are names of streams with * and ?, {_MOST_PATTERNS} at most; {problem}",
            reason="STREAM_PATTERNS",
            field="streams",
        )
