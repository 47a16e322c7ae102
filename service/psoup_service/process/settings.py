"""The service's settings: names, defaults, allowed values, and the settings that each part of the service gets.

`psoup_service.process.settings_sources` finds the values.
"""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from psoup.config import EngineConfig
from psoup.invariants import Verify
from psoup.model import SECOND
from psoup_service.gate.listeners import Listener, incomplete, listener, port_of, unsecured
from psoup_service.gate.provider import Provider, role_table, wrong_provider
from psoup_service.host.reads.allowance import ReadLimits
from psoup_service.host.turns.fair_turns import Weights
from psoup_service.process.setting_values import CHECKS
from psoup_service.wire.limits import Limits

_MIB = 1024 * 1024
UNSTORED_CHUNKS = 4
"""The most chunks of a stream that wait in the log for a short retention to pass them (`EngineConfig.unstored_chunks`).
"""
_LISTS = ("functions", "listen", "certificate_roles", "oidc_roles", "web_hosts", "web_origins", "webhook_hosts")
"""The settings that are lists."""
TOGETHER = "together"
"""The type of the error for two settings that exclude each other."""


def _together(field: str, why: str) -> PydanticCustomError:
    """The error for two settings that exclude each other."""
    return PydanticCustomError(TOGETHER, "{why}", {"field": field, "why": why})


class Settings(BaseModel):
    """Every setting, with its unit in its name. The meaning of zero is said where it is special."""

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

    data_dir: str = Field(default="psoup-data", min_length=1)
    """directory for data, created if it is missing; :memory: keeps everything in memory only"""

    disk_reserve_mib: int = Field(default=64, ge=0)
    """free space of the disk below which commands are refused"""

    log_format: Literal["auto", "json", "console"] = "auto"
    """auto: console on a terminal, else json"""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """lowest level that is logged"""

    otlp_endpoint: str = ""
    """collector of OpenTelemetry to which traces of calls are sent: http://127.0.0.1:4317; takes psoup[otel]"""

    otlp_sample: float = Field(default=1.0, ge=0, le=1)
    """share of the calls that are traced, among those whose caller does not decide it by its own trace"""

    slow_call_ms: int = Field(default=1_000, ge=0)
    """a call that takes longer is logged with the form of its statement, without values; 0 is off"""

    verify: Verify = "cheap"
    """checks of the engine's own structures: off, cheap (counts, at most 2 % of the work), all (slow)"""

    memory_mib: int = Field(default=4_096, ge=0)
    """budget for tuples, queries and results; pushes and registrations beyond it are refused; 0 refuses all"""

    results_mib: int = Field(default=4_096, ge=0)
    """most of memory_mib for kept results and key indexes; key indexes leave first; both are recomputed when needed"""

    archive_cache_mib: int = Field(default=256, ge=0)
    """columns of archived tuples that are kept in memory after they were read"""

    queue_mib: int = Field(default=256, ge=1)
    """pushed data that may wait to be applied"""

    staged_mib: int = Field(default=512, ge=0, le=768)
    """batches in parts, not committed yet; half is reserved for tenants; a batch is logged in one transaction"""

    sort_rows: int = Field(default=5_000_000, ge=0)
    """rows that a sort, DISTINCT, a set operation or a subselect may hold in one invocation"""

    sort_mib: int = Field(default=256, ge=0)
    """memory of sorts, DISTINCT, set operations and subselects in one invocation, and as much for its groups"""

    group_keys: int = Field(default=4_194_304, ge=1)
    """groups, or distinct values of a DISTINCT aggregate, in one invocation"""

    group_rows: int = Field(default=1_048_576, ge=1)
    """groups that one answer may show"""

    join_pairs: int = Field(default=268_435_456, ge=1)
    """pairs of tuples that one invocation of a join may look at"""

    join_mib: int = Field(default=256, ge=1)
    """memory that one invocation of a join may hold for keys, sorted sides and tuples not yet given out"""

    sorts_mib: int = Field(default=512, ge=0)
    """memory that ORDER BY, DISTINCT, GROUP BY and joins may hold in all invocations; half is reserved for tenants"""

    read_cpu_s: float = Field(default=60.0, gt=0, le=86_400)
    """processor time that one read may use; of a streamed answer, each piece"""

    archive_seconds: float = Field(default=10.0, ge=0, le=86_400)
    """time that one invocation may take for tuples on disk; with 0 it reads only covered ones"""

    warn_share: float = Field(default=0.5, ge=0, le=1)
    """a query that takes at least this share of the time of arriving tuples is reported; 0 is off"""

    quarantine_share: float = Field(default=0.0, ge=0, le=1)
    """from this share on, a query's clause leaves the index until the next start; 0 is off"""

    max_ahead_s: int = Field(default=86_400, ge=0)
    """most time by which a tuple may lie past the clock, whatever a stream's AHEAD says"""

    resume_grace_s: int = Field(default=60, ge=0)
    """time of taking pushes after which watermarks follow the clock (WATERMARK BY CLOCK); at least LATENESS"""

    follow_keep_s: int = Field(default=86_400, ge=0)
    """time for which tables keep ended versions for a follower's position, also after their HISTORY"""

    streams: int = Field(default=10_000, ge=0)
    """streams of one tenant"""

    functions: tuple[str, ...] = ()
    """modules with functions of your own: names that Python can import, or paths of .py files"""

    functions_s: float = Field(default=10.0, ge=0.1, le=3_600)
    """time in which a call of such a function must return"""

    functions_mib: int = Field(default=1_024, ge=128)
    """memory of the process in which such functions run"""

    readers: int = Field(default=2, ge=1, le=256)
    """threads that evaluate answers"""

    threads: int = Field(default=1, ge=1, le=256)
    """threads that join tuples with queries"""

    pending: int = Field(default=1_024, ge=1)
    """commands, and reads, under way at a time; half as many reads again for tenants that have few"""

    concurrent_calls: int = Field(default=1_024, ge=1)
    """open calls of all clients; half as many again for tenants that have few"""

    watchers: int = Field(default=4_096, ge=0)
    """clients that watch answers at a time, 50 to 150 kB each; half as many again for tenants that have few"""

    watches_per_credential: int = Field(default=1_000, ge=1)
    """watches that one credential may have open; one watch may have a thousand queries"""

    connections: int = Field(default=20_000, ge=1)
    """connections of a listener, 18 kB each; of pages and PostgreSQL's clients 4,096, or a quarter of the files"""

    receive_mib: int = Field(default=256, ge=16)
    """bytes of incoming requests; a call is charged its declared size, or else the most that it may have"""

    receive_s: float = Field(default=10.0, gt=0, le=3_600)
    """time in which a request must arrive; with a declared size, a second more for each 256 KiB"""

    receive_window_kib: int = Field(default=64, ge=64, le=16_384)
    """bytes that a client may send of a request before it is read; more is faster over long distances"""

    connection_idle_s: float = Field(default=1_800.0, ge=1, le=31_536_000)
    """a connection without calls is closed after this time"""

    default_deadline_s: float = Field(default=30.0, gt=0, le=86_400)
    """deadline of a unary call that comes without one"""

    stream_age_s: float = Field(default=3_600.0, gt=0, le=31_536_000)
    """a streaming call is ended after this time"""

    stream_idle_s: float = Field(default=300.0, gt=0, le=31_536_000)
    """a streaming call without progress is ended after this time"""

    drain_s: float = Field(default=10.0, ge=0, le=3_600)
    """time for calls to end when the service stops"""

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth(cls, value: Any, field: ValidationInfo) -> Any:
        """Refuse true and false as numbers: Python would take them for 1 and 0."""
        if isinstance(value, bool) and cls.model_fields[field.field_name or ""].annotation is not bool:
            raise PydanticCustomError("truth", "neither true nor false")
        return value

    @field_validator(*_LISTS, mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        """Read a list from a variable of the environment, with commas between its parts."""
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator(*CHECKS)
    @classmethod
    def _checked(cls, value: Any, field: ValidationInfo) -> Any:
        CHECKS[field.field_name or ""](value)
        return value

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

    def engine_config(self) -> EngineConfig:
        """The settings of the engine."""
        return EngineConfig(
            memory_bytes=self.memory_mib * _MIB,
            results_bytes=self.results_mib * _MIB,
            sort_rows=self.sort_rows,
            group_keys=self.group_keys,
            group_rows=self.group_rows,
            join_pairs=self.join_pairs,
            join_bytes=self.join_mib * _MIB,
            max_ahead=self.max_ahead_s * SECOND,
            resume_grace=self.resume_grace_s * SECOND,
            follow_keep=self.follow_keep_s * SECOND,
            streams=self.streams,
            key_idle=self.idempotency_key_s * SECOND,
            unstored_chunks=UNSTORED_CHUNKS,
        )

    def provider(self) -> Provider | None:
        """The provider whose access tokens are let in."""
        if not self.oidc_issuer:
            return None
        named = self.oidc_issuer, self.oidc_audience, self.oidc_jwks_url, self.oidc_role_claim
        return Provider(*named, role_table(self.oidc_roles), self.oidc_tenant_claim)

    def allowance(self, weights: Weights) -> ReadLimits:
        """The limits of reads. `weights`: the tenants' shares."""
        return ReadLimits(
            cpu_s=self.read_cpu_s,
            sort_bytes=self.sort_mib * _MIB,
            all_sort_bytes=self.sorts_mib * _MIB,
            archive_s=self.archive_seconds,
            weights=weights,
        )

    def limits(self) -> Limits:
        """The limits of calls."""
        return Limits(
            text_bytes=self.engine_config().text_bytes,
            staged_bytes=self.staged_mib * _MIB,
            concurrent_calls=self.concurrent_calls,
            watchers=self.watchers,
            watches_per_credential=self.watches_per_credential,
            connections=self.connections,
            receive_bytes=self.receive_mib * _MIB,
            receive_s=self.receive_s,
            handshake_s=self.receive_s,
            receive_window_bytes=self.receive_window_kib * 1024,
            connection_idle_s=self.connection_idle_s,
            default_deadline_s=self.default_deadline_s,
            stream_age_s=self.stream_age_s,
            stream_idle_s=self.stream_idle_s,
        )
