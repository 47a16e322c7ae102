"""Principals: the identity of a caller, as the gate found it. Only this decides what a call may see and do."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from psoup.errors import NotFound
from psoup.model import DEFAULT_TENANT
from psoup_service.gate.roles import ANYBODY, OPERATOR, ROLES


@dataclass(frozen=True, slots=True)
class Principal:
    """The identity of a caller. `token_id`: the ID of the caller's token, "" without one.

    `ends`: the end of the caller's certificate or provider's token, in microseconds; 0 for never. `streams`: lower-case
    patterns of the streams that the caller may push to; () for all streams of the tenant. `certified`: the caller came
    in by a certificate.
    """

    name: str
    roles: tuple[str, ...]
    tenant: str = DEFAULT_TENANT
    token_id: str = ""
    streams: tuple[str, ...] = ()
    ends: int = 0
    certified: bool = False

    @property
    def credential(self) -> tuple[str, str, str] | None:
        """The unique identity of the caller's credential: a token's ID, or the name in a certificate or a provider's
        token. None if callers need no credential.
        """
        return (self.tenant, self.token_id, self.name) if self.token_id or self.name or self.ends else None

    @property
    def serves(self) -> bool:
        """Whether the caller belongs to the tenant that runs the service.

        An operator of this tenant operates the service.
        """
        return self.tenant == DEFAULT_TENANT

    @property
    def operates(self) -> bool:
        """Whether the caller is the service's operator, who may see all tenants."""
        return self.serves and OPERATOR in self.roles

    def check_stream(self, stream: str) -> None:
        """Raise NotFound for a stream outside of the principal's patterns. O(patterns).

        The message equals the message for a missing stream, so it does not reveal that the stream exists.
        """
        if self.streams and not any(fnmatchcase(stream.lower(), pattern) for pattern in self.streams):
            name = stream[:256]
            raise NotFound(
                f"there is no stream or table {name!r}; create it with CREATE STREAM or CREATE TABLE",
                reason="UNKNOWN_STREAM",
                stream=name,
            )


EVERYBODY = Principal("", ROLES)
"""The caller of a service that asks for no credential: its owner."""

STRANGER = Principal("", (ANYBODY,))
"""The principal of a caller without a credential, and of each caller before the gate has decided."""
