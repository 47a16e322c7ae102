"""Options of a client: its channel, its credentials, and how often a lost call is tried again.

    Client(address, options=ClientOptions(
        credentials=grpc.ssl_channel_credentials(certificate),      TLS; without credentials nothing is encrypted
        channel_options=(("grpc.keepalive_time_ms", 30_000),),      gRPC's own, each in place of the SDK's
        interceptors=(Tracing(),),                                  see every call, the first one from outside
        retry=RetryOptions(attempts=1),                             raise Unavailable at once
    ))

The pauses between attempts double, from the first to the longest:  0.1 s, 0.2 s, 0.4 s, 0.8 s, 1.6 s, 2 s, 2 s …
Nothing here opens a channel: `psoup_client.connection` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import grpc

MAX_CHANNEL_ATTEMPTS = 5
"""gRPC makes no more attempts at a call, whatever it is told."""

MIN_PAUSE_SECONDS = 0.01
"""gRPC loses calls whose pause it rounds to nothing: with 0.001 s every third one waited for its deadline instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOptions:
    """Repetition of calls while the service is unavailable. Only calls that do no harm twice are repeated.

    A unary call is tried `attempts` times; each attempt is made by gRPC, up to `channel_attempts` times. Streamed
    answers have only gRPC's attempts. A `Producer` repeats for as long as `patience_seconds` says. A service that asks
    for a longer pause gets it. Raises ValueError for numbers that make no sense.
    """

    attempts: int = 4
    """Attempts at a call, the first one among them; 1: a call is not repeated. Its timeout is for all together."""

    channel_attempts: int = 3
    """Attempts that gRPC makes of each of these; 1: gRPC does not repeat. At most 5, which is gRPC's own limit."""

    first_pause_seconds: float = 0.1
    """Pause before the first repetition, and before the channel connects again. Each later one doubles."""

    longest_pause_seconds: float = 2.0
    """Pauses do not grow beyond this."""

    patience_seconds: float = 60.0
    """For how long without progress a `Producer` that names no `retry_seconds` goes on; 0: it fails at once."""

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"attempts is {self.attempts}: the first attempt counts, give 1 or more")
        if not 1 <= self.channel_attempts <= MAX_CHANNEL_ATTEMPTS:
            raise ValueError(f"channel_attempts is {self.channel_attempts}: give 1 to {MAX_CHANNEL_ATTEMPTS}")
        if not MIN_PAUSE_SECONDS <= self.first_pause_seconds <= self.longest_pause_seconds:
            raise ValueError(
                f"the pauses are {self.first_pause_seconds:g} s to {self.longest_pause_seconds:g} s: give"
                f" {MIN_PAUSE_SECONDS} or more for the first, and no less for the longest"
            )
        if not self.patience_seconds >= 0:
            raise ValueError(f"patience_seconds is {self.patience_seconds}: give 0 or more")

    def pauses(self) -> Iterator[float]:
        """Seconds between attempts, without an end."""
        pause = self.first_pause_seconds
        while True:
            yield pause
            pause = min(self.longest_pause_seconds, pause * 2)

    def pauses_of_call(self) -> tuple[float, ...]:
        """Seconds between the attempts at one call."""
        return tuple(islice(self.pauses(), self.attempts - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Options of a `Client` beside its address and timeout; clients may share them."""

    credentials: grpc.ChannelCredentials | None = None
    """What secures the channel, as gRPC makes it: `grpc.ssl_channel_credentials(…)` for TLS, composed with call
    credentials for a token. None: neither encryption nor proof of who answers."""

    channel_options: tuple[tuple[str, Any], ...] = ()
    """gRPC's channel arguments, such as ("grpc.keepalive_time_ms", 30_000). One that the SDK sets, too, replaces its
    value: with "grpc.service_config" the attempts that the channel makes are yours."""

    interceptors: tuple[Any, ...] = ()
    """`grpc.UnaryUnaryClientInterceptor` and its siblings, which see every call; the first one sees it first."""

    retry: RetryOptions = RetryOptions()
    """How calls are repeated."""
