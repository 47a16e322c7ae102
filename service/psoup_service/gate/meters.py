"""The use of the service by each tenant now, judged by its quotas.

    call ─> gate ─> `Meters.call` ───────────────────────> the work, as a context
                      │ too many a second, too many open      └─ pushed bytes, and processor time as the host tells it
                      └─ a rate that is used up: RESOURCE_EXHAUSTED, quota, use, limit, and when to come again

A rate is a leaky bucket: it leaks as much as the quota allows and holds the amount of a second. A call that comes while
it is full waits. The cost of work is often known only afterwards, so a bucket may be overfull: a debt that is paid by
waiting. A tenant without a quota is only counted, and starts without debt when it gets one. Quotas that follow from
events are judged by admission (`psoup.admission.quotas`).

Existing libraries fix a rate when a limiter is made, and do not accept costs that are known afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from math import ceil, exp

from psoup.errors import ResourceExhausted
from psoup.events.tenants import Tenant, over_quota
from psoup_service.host.turns.fair_turns import TenantTimes

_SECONDS = 2.0
"""Seconds over which a reported use per second is averaged."""

RETRY_AFTER_MS = 250
"""The suggested wait, in milliseconds, for a caller with too many open calls. The service cannot know when they end."""

HELD_MS = {"receive_bytes": RETRY_AFTER_MS, "stages": 1_000, "staged_bytes": 1_000, "pinned_bytes": 1_000}
"""The suggested waits, in milliseconds, for resources that other calls of the tenant hold until they end."""

_LONGEST_S = 86_400.0
"""The longest suggested wait, in seconds. A tiny quota would give absurd numbers."""

_JOINS = ("join_share", "matches_per_second")
_PUSHES = ("pushed_bytes_per_second", *_JOINS)
_REGISTERS = ("prepare_share",)
_READS = ("read_share",)

PAYS: dict[str, tuple[str, ...]] = {
    "StreamService/CreateStream": _REGISTERS,
    "StatementService/Ask": _READS,
    "StatementService/AskStream": _READS,
    "IngestService/Push": _PUSHES,
    "IngestService/PushRows": _PUSHES,
    "IngestService/PushStream": _PUSHES,
    "IngestService/TupleIds": _READS,
    "StagingService/BeginStage": _PUSHES,
    "StagingService/AddPart": _PUSHES,
    "StagingService/CommitStage": _JOINS,
    "QueryService/Register": _REGISTERS,
    "QueryService/RegisterMany": _REGISTERS,
    "QueryService/AlterQueries": _REGISTERS,
    "QueryService/Check": (*_REGISTERS, *_READS),
    "QueryService/ListQueries": _READS,
    "QueryService/Explain": _READS,
    "QueryService/Invoke": _READS,
    "QueryService/InvokeMany": _READS,
    "QueryService/InvokeStream": _READS,
    "QueryService/InvokeTable": _READS,
    "QueryService/InvokeRows": _READS,
    "QueryService/Matches": _READS,
    "QueryService/MatchesMany": _READS,
    "QueryService/TopQueries": _READS,
    "MatchingService/Match": _READS,
    "MatchingService/MatchesBetween": _READS,
    "MatchingService/Results": _READS,
    "MatchingService/Why": _READS,
    "SyncService/Sync": _READS,
    "SyncService/Watch": _READS,
    "FollowService/Follow": _READS,
    "GroupService/TakeBatch": _READS,
    "WebhookService/AddWebhook": _READS,
}
"""The rates that are checked before each call, by the call's name. Calls that only remove something, or are cheap, have
none. StatementService/Execute pays for the statement that it executes."""

TOLD = ("prepare_share", "join_share", "read_share", "matches_per_second")
"""Rates whose costs are known only after the work: processor time, and matches. Matches are counted only for tenants
that have the quota."""

RATES = ("calls_per_second", "pushed_bytes_per_second", *TOLD)


class Rate:
    """A leaky bucket, and the approximate amount that goes through it in a second."""

    __slots__ = ("_at", "_level", "_smooth")

    def __init__(self, now: float) -> None:
        self._at = now
        self._level = 0.0
        self._smooth = 0.0

    def add(self, now: float, amount: float, limit: float) -> None:
        """Add an amount to the bucket, which leaks `limit` each second. Without a limit the bucket stays empty."""
        passed, self._at = now - self._at, now
        self._level = max(0.0, self._level + amount - passed * limit) if limit else 0.0
        self._smooth = _smoothed(self._smooth, passed, amount)

    def wait(self, limit: float, amount: float) -> float:
        """Seconds until the bucket has room for `amount`, as of the last `add`. `limit` must not be 0."""
        return max(0.0, self._level + amount - max(limit, amount)) / limit

    def per_second(self, now: float, more: float = 0.0) -> float:
        """The approximate amount per second over the last seconds.

        `more`: the amount since the last `add`. Changes nothing.
        """
        return _smoothed(self._smooth, now - self._at, more)


def _smoothed(smooth: float, passed: float, amount: float) -> float:
    """The smoothed use per second. `passed`: seconds since the last update. `amount`: the use in these seconds."""
    share = exp(-passed / _SECONDS)
    return smooth * share + amount * ((1.0 - share) / passed if passed > 1e-6 else 1.0 / _SECONDS)


class _Meter:
    """The use of one tenant. `open`: calls without watches.

    `seen`: the processor seconds and matches that the rates already have, or that came before the tenant had the quota.
    `judged`: the quotas of `TOLD` that the tenant had at its last call.
    """

    def __init__(self, now: float) -> None:
        self.open = self.watching = 0
        self.rates = {quota: Rate(now) for quota in RATES}
        self.seen = dict.fromkeys(TOLD, 0.0)
        self.judged = set[str]()


class MeteredCall:
    """A context in which a call, or a watch, is open."""

    __slots__ = ("_meter", "_watching")

    def __init__(self, meter: _Meter, watching: bool) -> None:
        self._meter = meter
        self._watching = watching

    def __enter__(self) -> None:
        self._meter.open += not self._watching
        self._meter.watching += self._watching

    def __exit__(self, *_: object) -> None:
        self._meter.open -= not self._watching
        self._meter.watching -= self._watching


NOT_METERED = MeteredCall(_Meter(0.0), watching=False)
"""The context of calls that are not metered."""


class Meters:
    """The meters of all tenants. All but `used_by` belongs to one event loop.

    `tenants`: returns the existing tenants. `times`: the tenants' use of each quota of `TOLD`. `now`: seconds of a
    clock that never goes back.
    """

    def __init__(
        self,
        tenants: Callable[[], Mapping[str, Tenant]],
        times: Mapping[str, Iterable[TenantTimes]],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.tenants = tenants
        self._now = now
        self._times = {quota: tuple(parts) for quota, parts in times.items()}
        self._meters: dict[str, _Meter] = {}
        self._began = now()
        self.sources: dict[str, Callable[[str], float]] = {}
        """Functions that return a tenant's use of the other quotas, by quota. The parts of the service that count the
        use set them. Any thread may call them."""
        self.together: Callable[[Collection[str]], Mapping[str, Mapping[str, float]]] = lambda _: {}
        """Returns the use of some tenants, by tenant and quota, if one look for all tenants is cheaper. Any thread may
        call it."""

    def call(self, name: str, call: str, *, watching: bool) -> MeteredCall:
        """A context for a call of the tenant `name`, which counts as open within it. Some microseconds.

        Raises ResourceExhausted, reason QUOTA, for too many calls, or if a rate is used up.
        """
        tenant, meter = self.tenants().get(name), self._meter(name)
        if tenant is not None:
            self._check_open(tenant, meter, watching)
            self._check_rate(tenant, meter, "calls_per_second")
            self.pay(name, call)
        limit = 0.0 if tenant is None else tenant.quotas.calls_per_second
        meter.rates["calls_per_second"].add(self._now(), 1, limit)
        return MeteredCall(meter, watching)

    def has_few(self, name: str, watching: bool, places: float) -> bool:
        """Whether a tenant has fewer open calls (or watches) than its share of `places`. The share is at least one."""
        meter = self._meter(name)
        return (meter.watching if watching else meter.open) < max(1, places // max(1, len(self.tenants())))

    def pay(self, name: str, call: str) -> None:
        """Raise ResourceExhausted, reason QUOTA, if the tenant has used up a rate that `PAYS` has for this call."""
        tenant = self.tenants().get(name)
        if tenant is not None:
            for quota in PAYS.get(call, ()):
                self._check_rate(tenant, self._meter(name), quota)

    def prepare(self, name: str) -> None:
        """Raise ResourceExhausted, reason QUOTA, if the tenant has used up its time for binding statements."""
        tenant = self.tenants().get(name)
        if tenant is not None:
            self._check_rate(tenant, self._meter(name), "prepare_share")

    def push(self, name: str, size: int) -> None:
        """Charge tuples of `size` bytes.

        Raises ResourceExhausted, reason QUOTA, if earlier tuples or their joins have used up a rate.
        """
        tenant, meter = self.tenants().get(name), self._meter(name)
        if tenant is not None:
            for quota in _PUSHES:
                self._check_rate(tenant, meter, quota)
        limit = 0.0 if tenant is None else tenant.quotas.pushed_bytes_per_second
        meter.rates["pushed_bytes_per_second"].add(self._now(), size, limit)

    def check(self, name: str, quota: str, used: Callable[[], int], more: int, way: str, charged: int = 0) -> None:
        """Raise ResourceExhausted, reason QUOTA, if the use now and `more` together exceed the quota.

        `used`: returns the use now. The refusal suggests a wait, unless the caller's `charged` bytes and `more` alone
        exceed the quota.
        """
        tenant = self.tenants().get(name)
        limit = 0 if tenant is None else getattr(tenant.quotas, quota)
        if tenant is not None and limit and (now := used()) + more > limit:
            refusal = over_quota(tenant, quota, now, more, way)
            raise refusal if charged + more > limit else _with_wait(refusal, HELD_MS[quota])

    def used(self, name: str) -> dict[str, float]:
        """The use of a tenant now, by quota. O(streams)."""
        return self.used_by((name,))[name]

    def used_by(self, names: Collection[str]) -> dict[str, dict[str, float]]:
        """The use of some tenants now, by name and quota. O(streams + tenants).

        From any thread: a rate that changes meanwhile is approximate.
        """
        now, together = self._now(), self.together(names)
        return {name: {**self._taken(name, now), **together.get(name, {})} for name in names}

    def _taken(self, name: str, now: float) -> dict[str, float]:
        meter = self._meters.get(name) or _Meter(self._began)
        late = {quota: self._had(quota, name) - meter.seen[quota] for quota in TOLD}
        rates = {quota: rate.per_second(now, late.get(quota, 0.0)) for quota, rate in meter.rates.items()}
        usage = {quota: source(name) for quota, source in self.sources.items()}
        tenant = self.tenants().get(name)
        if tenant is None or not tenant.quotas.matches_per_second:
            del rates["matches_per_second"]
        return {"open_calls": meter.open, "watchers": meter.watching, **rates, **usage}

    def _had(self, quota: str, name: str) -> float:
        """Processor seconds, or matches, that a tenant has used since the start."""
        return sum(times.used.get(name, 0.0) for times in self._times[quota])

    def _meter(self, name: str) -> _Meter:
        meter = self._meters.get(name)
        if meter is None:
            meter = self._meters[name] = _Meter(self._began)
        return meter

    def _check_open(self, tenant: Tenant, meter: _Meter, watching: bool) -> None:
        quota, present = ("watchers", meter.watching) if watching else ("open_calls", meter.open)
        limit = getattr(tenant.quotas, quota)
        if 0 < limit <= present:
            raise _with_wait(over_quota(tenant, quota, present, 1, "end some of them"), RETRY_AFTER_MS)

    def _check_rate(self, tenant: Tenant, meter: _Meter, quota: str) -> None:
        limit: float = getattr(tenant.quotas, quota)
        if not limit:
            meter.judged.discard(quota)
            return
        rate, now = meter.rates[quota], self._now()
        if quota in TOLD:
            self._look(meter, tenant.name, quota, limit)
        else:
            rate.add(now, 0, limit)
        wait = ceil(1_000 * min(rate.wait(limit, quota == "calls_per_second"), _LONGEST_S))
        if wait:
            raise _used_up(tenant, quota, rate.per_second(now), wait)

    def _look(self, meter: _Meter, name: str, quota: str, limit: float) -> None:
        """Add the tenant's use since the last look to the rate.

        Adds nothing if the tenant did not have the quota then.
        """
        used = self._had(quota, name)
        owed = used - meter.seen[quota] if quota in meter.judged else 0.0
        meter.judged.add(quota)
        meter.rates[quota].add(self._now(), owed, limit)
        meter.seen[quota] = used


def _used_up(tenant: Tenant, quota: str, used: float, wait_ms: int) -> ResourceExhausted:
    limit: float = getattr(tenant.quotas, quota)
    return ResourceExhausted(
        f"tenant {tenant.name!r} has used up its quota {quota} of {_exact(limit)} a second: come again in"
        f" {in_words(wait_ms)}, when its use is paid for, or ask the service's operator for more (psoup tenant set"
        f" {tenant.name} --{quota.replace('_', '-')} N)",
        reason="QUOTA",
        quota=quota,
        tenant=tenant.name,
        limit=f"{limit:g}",
        used=f"{used:.3g}",
        retry_after_ms=wait_ms,
    )


def _exact(limit: float) -> str:
    """A limit as it was set, without a needless fraction."""
    return f"{int(limit):,}" if limit == int(limit) else f"{limit:,g}"


def in_words(wait_ms: int) -> str:
    """A wait in words, rounded up: in at most two units, and below a second in milliseconds.

    >>> in_words(250), in_words(1_001), in_words(61_000), in_words(7_856_418), in_words(86_400_000)
    ('250 ms', '2 s', '1 min 1 s', '2 h 11 min', '24 h')
    """
    if wait_ms < 1_000:
        return f"{wait_ms} ms"
    seconds = ceil(wait_ms / 1_000)
    if seconds < 60:
        return f"{seconds} s"
    large, small, units = (*divmod(seconds, 60), ("min", "s"))
    if large >= 60:
        large, small, units = (*divmod(ceil(seconds / 60), 60), ("h", "min"))
    return f"{large} {units[0]}" + (f" {small} {units[1]}" if small else "")


def _with_wait(error: ResourceExhausted, wait_ms: int) -> ResourceExhausted:
    error.facts = {**error.facts, "retry_after_ms": str(wait_ms)}
    return error
