"""The service's settings: names, defaults, allowed values, and the settings that each part of the service gets.

`psoup_service.process.settings_sources` finds the values.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from psoup.config import EngineConfig
from psoup.invariants import Verify
from psoup.model import SECOND
from psoup_service.host.reads.allowance import ReadLimits
from psoup_service.host.turns.fair_turns import Weights
from psoup_service.process.listen_settings import ListenSettings
from psoup_service.process.setting_values import CHECKS
from psoup_service.wire.limits import Limits

_MIB = 1024 * 1024
UNSTORED_CHUNKS = 4
"""The most chunks of a stream that wait in the log for a short retention to pass them (`EngineConfig.unstored_chunks`).
"""
_LISTS = ("functions", "listen", "certificate_roles", "oidc_roles", "web_hosts", "web_origins", "webhook_hosts")
"""The settings that are lists."""


class Settings(ListenSettings):
    """Every setting, with its unit in its name. The meaning of zero is said where it is special."""

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

    replicate: str = ""
    """where all events are copied to: a directory, or s3://, gs:// or az:// (docs/replication.md); empty for no copy"""

    replicate_queue_mib: int = Field(default=256, ge=1)
    """events that may wait for the copy; with more, a base image brings the copy up to date later"""

    replicate_base_s: int = Field(default=3_600, ge=10)
    """time between two base images of the copy, from which restores begin"""

    replicate_keep: Annotated[int, Field(ge=1)] | Literal["off"] = 7
    """days for which the copy can restore every moment; older objects are removed; off: none is removed"""

    replicate_ack: Literal["local", "remote"] = "local"
    """when events are acknowledged: on the disk (local), or also in the copy (remote), which is in object storage"""

    replicate_lag_most: Annotated[int, Field(ge=1)] | Literal["off"] = 60
    """seconds that the copy may be behind before nothing is acknowledged any more; off: no limit"""

    advertise: str = ""
    """address at which clients write, which standbys name: db1.example.org:7433; empty: where it listens"""

    standby: str = ""
    """the copy of another service that this one follows and only reads from (docs/replication.md); empty for none"""

    memory_mib: int = Field(default=4_096, ge=0)
    """budget for tuples, queries and results; pushes and registrations beyond it are refused; 0 refuses all"""

    results_mib: int = Field(default=4_096, ge=0)
    """most of memory_mib for kept results and key indexes; key indexes leave first; both are recomputed when needed"""

    answers_mib: int = Field(default=256, ge=0)
    """most of results_mib for kept answers of COMPLETE queries, which leave first; with 0 none is kept"""

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

    amount: Literal["none", "partial", "complete", "auto"] = "partial"
    """how much is kept of a query whose registration does not say it, or `auto` (docs/amounts.md)"""

    park_after_s: int = Field(default=86_400, ge=0)
    """an inactive query that was not asked for this time leaves the memory (docs/amounts.md); with 0 none does"""

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

    def engine_config(self) -> EngineConfig:
        """The settings of the engine."""
        return EngineConfig(
            memory_bytes=self.memory_mib * _MIB,
            results_bytes=self.results_mib * _MIB,
            answer_bytes=self.answers_mib * _MIB,
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

    def default_amount(self) -> str:
        """The name of the amount of queries whose registration has none."""
        return self.amount.upper()

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
