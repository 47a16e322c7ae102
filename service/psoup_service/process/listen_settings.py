"""The settings of the places where the service listens, and of the callers that it lets in."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from psoup_service.gate.listeners import Listener, incomplete, listener, port_of, unsecured
from psoup_service.gate.provider import Provider, role_table, wrong_provider

TOGETHER = "together"
"""The type of the error for two settings that exclude each other."""


def _together(field: str, why: str) -> PydanticCustomError:
    """The error for two settings that exclude each other."""
    return PydanticCustomError(TOGETHER, "{why}", {"field": field, "why": why})


class ListenSettings(BaseModel):
    """The settings for gRPC, the page, clients of PostgreSQL and assistants, and for the credentials of callers."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    host: str = "127.0.0.1"
    """address to listen on; off loopback only with TLS, and tokens or certificates of clients"""

    port: int = Field(default=7433, ge=0, le=65_535)
    """port for gRPC; 0 takes a free one"""

    socket: str = ""
    """path of a Unix socket to listen on, instead of host and port; empty for none"""

    socket_mode: str = Field(default="0600", pattern=r"^0?[0-7]{3}$")
    """permissions of Unix sockets, octal; 0660 lets their group in"""

    listen: tuple[str, ...] = ()
    """places to listen on, instead of host, port and socket: ADDRESS:PORT, https://ADDRESS:PORT, unix:PATH"""

    tls_cert: str = ""
    """PEM file of the service's certificate and of those that signed it; read again when it changes"""

    tls_key: str = ""
    """PEM file of its key, without a password"""

    tls_client_ca: str = ""
    """PEM file of the authorities that sign clients' certificates; empty: clients show no certificate"""

    certificate_roles: tuple[str, ...] = ()
    """roles of clients' certificates, instead of tokens: NAME=ROLE+ROLE; NAME is a URI or DNS name in a certificate"""

    oidc_issuer: str = ""
    """OpenID Connect provider whose access tokens (JWTs) are accepted, as in their claim iss; takes psoup[oidc]"""

    oidc_audience: str = ""
    """name of this service, which their claim aud must have"""

    oidc_jwks_url: str = ""
    """URL of the provider's keys; empty: the jwks_uri of oidc_issuer/.well-known/openid-configuration"""

    oidc_role_claim: str = "roles"
    """claim that names roles, a list or words; within another claim with a dot: realm_access.roles"""

    oidc_roles: tuple[str, ...] = ()
    """roles of the values of that claim: VALUE=ROLE+ROLE; empty: the values are names of roles"""

    oidc_tenant_claim: str = ""
    """claim that names the tenant; empty: all tokens are of tenant default"""

    metrics_port: int = Field(default=-1, ge=-1, le=65_535)
    """port for /metrics, /healthz and /readyz; 0 takes a free one, -1 is off"""

    web_port: int | None = Field(default=None, ge=-1, le=65_535)
    """port for the page in a browser; 0 takes a free one, -1 is off; unset: port + 1, unless port is 0 or not used"""

    web_hosts: tuple[str, ...] = ()
    """further names by which browsers reach it, beside localhost and host: psoup.example.org"""

    web_origins: tuple[str, ...] = ()
    """pages on other hosts that may call, by origin: https://app.example.org; * is any page that has an access token"""

    idempotency_key_s: int = Field(default=86_400, ge=1, le=604_800)
    """time for which a stream remembers the Idempotency-Key of a request with rows"""
    webhook_hosts: tuple[str, ...] = ()
    """further hosts that webhooks may reach, beside public ones over https: http://localhost:9000"""

    pg_port: int = Field(default=-1, ge=-1, le=65_535)
    """port for clients of PostgreSQL (psql, BI tools, drivers); 0 takes a free one, -1 is off; takes psoup[pg]"""

    pg_socket: str = ""
    """directory for a Unix socket of such clients, named .s.PGSQL. and pg_port; empty for none"""

    pg_idle_in_transaction_s: float = Field(default=60.0, gt=0, le=86_400)
    """time for which a transaction of such a client may be idle; then it ends"""

    mcp: bool = False
    """assistants (clients of MCP) may call /mcp on the port of the page; takes psoup[mcp]"""

    mcp_rows: int = Field(default=200, ge=1, le=10_000)
    """most rows in a reply to an assistant"""

    mcp_kib: int = Field(default=64, ge=4, le=1_024)
    """most KiB of such a reply"""

    @model_validator(mode="after")
    def _provided(self) -> Self:
        others = {"oidc_roles": self.oidc_roles, "oidc_tenant_claim": self.oidc_tenant_claim}
        given = {name: value for name, value in others.items() if value}
        wrong = wrong_provider(self.oidc_issuer, self.oidc_audience, self.oidc_jwks_url, given)
        if wrong is not None:
            raise _together(*wrong)
        return self

    @model_validator(mode="after")
    def _secured(self) -> Self:
        wrong = incomplete(self.tls_cert, self.tls_key, self.tls_client_ca)
        if wrong is not None:
            raise _together(*wrong)
        if self.certificate_roles and not self.tls_client_ca:
            why = "clients' certificates need an authority; give tls_client_ca, the authority that signs them"
            raise _together("certificate_roles", why)
        field = "listen" if self.listen else "host"
        try:
            places = self.listeners()
        except ValueError as problem:
            raise _together(field, f"{problem}; off loopback it needs TLS, on loopback 127.0.0.1 is enough") from None
        why = unsecured(places, certificate=bool(self.tls_cert))
        if why:
            raise _together(field, why)
        web = self.web_listener()
        if web is not None and (why := unsecured((web,), certificate=bool(self.tls_cert))):
            raise _together("web_port", why)
        if self.mcp and web is None:
            raise _together("mcp", "assistants call the port of the page, which is off; give web_port")
        postgres = self.pg_listener()
        if postgres is not None and (why := unsecured((postgres,), certificate=bool(self.tls_cert))):
            raise _together("pg_port", why)
        if self.pg_socket and postgres is None:
            raise _together("pg_socket", "the name of its socket ends with the port; give pg_port too")
        return self

    def web_listener(self) -> Listener | None:
        """The place where the gateway listens; with TLS if there is a certificate. None if it is off."""
        if self.web_port is not None:
            return None if self.web_port < 0 else port_of(self.host, self.web_port, tls=bool(self.tls_cert))
        if self.listen or self.socket or not 0 < self.port < 65_535:
            return None
        return port_of(self.host, self.port + 1, tls=bool(self.tls_cert))

    def pg_listener(self) -> Listener | None:
        """The place where clients of PostgreSQL connect; with TLS if there is a certificate. None if it is off."""
        return None if self.pg_port < 0 else port_of(self.host, self.pg_port, tls=bool(self.tls_cert))

    def listeners(self) -> tuple[Listener, ...]:
        """Places to listen; the first is the service's address."""
        if self.listen:
            return tuple(map(listener, self.listen))
        return (Listener(path=self.socket) if self.socket else port_of(self.host, self.port),)

    def places(self) -> tuple[Listener, ...]:
        """All places to listen: for gRPC, for pages, and for clients of PostgreSQL."""
        return (*self.listeners(), *filter(None, (self.web_listener(), self.pg_listener())))

    def lets_nobody_in(self) -> bool:
        """Whether other machines reach a listener that asks for no certificate.

        Then callers need a token in any case.
        """
        return not self.tls_client_ca and any(place.outside for place in self.places())

    def provider(self) -> Provider | None:
        """The provider whose access tokens are let in."""
        if not self.oidc_issuer:
            return None
        named = self.oidc_issuer, self.oidc_audience, self.oidc_jwks_url, self.oidc_role_claim
        return Provider(*named, role_table(self.oidc_roles), self.oidc_tenant_claim)
