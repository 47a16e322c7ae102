"""The options of a client: its channel, its credentials, and the repetition of lost calls.

    Client(address, options=ClientOptions(
        credentials=grpc.ssl_channel_credentials(certificate),      TLS as you make it; https://… needs none
        channel_options=(("grpc.keepalive_time_ms", 60_000),),      gRPC's own, each in place of the SDK's
        interceptors=(Tracing(),),                                  see every call, the first one from outside
        retry=RetryOptions(attempts=1),                             raise Unavailable at once
    ))

The pauses between attempts double, from the first to the longest:  0.1 s, 0.2 s, 0.4 s, 0.8 s, 1.6 s, 2 s, 2 s …
Nothing here opens a channel: `psoup_client.channel.connection` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any

import grpc

MAX_ATTEMPTS = 10_000
"""The greatest number of attempts at one call. Callers may repeat calls themselves if they want more."""

LONGEST_SECONDS = 1_000_000_000.0
"""The longest timeout, thirty years in seconds. gRPC treats a deadline much further away as already passed."""

MAX_PAUSE_SECONDS = 86_400.0
"""The longest pause, a day in seconds. gRPC counts the milliseconds of a pause in 32 bits."""

MIN_PAUSE_SECONDS = 0.01
"""The shortest pause in seconds. gRPC loses calls whose pause it rounds to zero.

With 0.001 s every third call waited for its deadline.
"""


def seconds(timeout: float) -> float:
    """Return a timeout that gRPC can take; `math.inf` becomes the longest one.

    Raises TypeError if it is not a number.
    """
    check_number("timeout", timeout)
    if not timeout >= 0:  # also refuses NaN
        raise ValueError(f"timeout is {timeout}: give seconds, 0 or more")
    return min(timeout, LONGEST_SECONDS)


def check_number(name: str, value: object, kind: type = Real) -> None:
    """Raise TypeError for a value that is not a number of the type `kind`."""
    if not isinstance(value, kind) or isinstance(value, bool):
        wanted = "a whole number" if kind is int else "a number"
        raise TypeError(f"{name} is {value!r}: give {wanted}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOptions:
    """Repetition of calls while the service is unavailable. Only calls that do no harm twice are repeated.

    A call is tried `attempts` times, and for `restart_seconds` if the service has answered before. A call with many
    replies (a streamed answer, a table, a backup) is repeated until its first reply. If most of a client's calls fail,
    it repeats none, and waits for a restart with the longest pauses. A `Producer` and a watch repeat for
    `patience_seconds`. If a service asks for a longer pause, the client waits that long. Raises ValueError for
    impossible numbers, and TypeError for a value that is not a number.
    """

    attempts: int = 3
    """The number of attempts at a call, including the first. With 1 a call is not repeated. All share its timeout."""

    restart_seconds: float = 10.0
    """The seconds for which a call waits for a service that has answered before, because it may be restarting. 0: none.
    """

    first_pause_seconds: float = 0.1
    """The pause before the first repetition, and before the channel connects again. Each later pause doubles."""

    longest_pause_seconds: float = 2.0
    """The longest pause in seconds."""

    patience_seconds: float = 60.0
    """The seconds without progress after which a `Producer` without `retry_seconds` fails; 0: at once."""

    def __post_init__(self) -> None:
        for option in fields(self):
            check_number(option.name, getattr(self, option.name), int if option.name.endswith("attempts") else Real)
        if not 1 <= self.attempts <= MAX_ATTEMPTS:
            raise ValueError(f"attempts is {self.attempts}: the first attempt counts, give 1 to {MAX_ATTEMPTS:,}")
        first, longest = self.first_pause_seconds, self.longest_pause_seconds
        if not MIN_PAUSE_SECONDS <= first <= longest <= MAX_PAUSE_SECONDS:
            raise ValueError(
                f"the pauses are {first:g} s to {longest:g} s: give {MIN_PAUSE_SECONDS} or more for the first,"
                f" and for the longest no less and at most {MAX_PAUSE_SECONDS:,.0f}"
            )
        for name in ("patience_seconds", "restart_seconds"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}: give 0 or more")

    def pauses(self) -> Iterator[float]:
        """Seconds between attempts, without an end."""
        pause = self.first_pause_seconds
        while True:
            yield pause
            pause = min(self.longest_pause_seconds, pause * 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Options of a `Client` beside its address and timeout; clients may share them."""

    credentials: grpc.ChannelCredentials | None = None
    """Credentials that secure the channel, made by gRPC: `grpc.ssl_channel_credentials(…)` for TLS, composed with call
    credentials for a token. None: an address https://… takes the files that the environment names
    (`psoup_client.channel.tls`); any other address has neither encryption nor proof of the service's identity.
    """

    channel_options: tuple[tuple[str, Any], ...] = ()
    """gRPC's channel arguments, such as ("grpc.keepalive_time_ms", 60_000). They replace the SDK's values. Attempts by
    "grpc.service_config" multiply those of `retry`.
    """

    interceptors: tuple[Any, ...] = ()
    """`grpc.UnaryUnaryClientInterceptor` and its siblings, which see every call, in this order."""

    retry: RetryOptions = RetryOptions()
    """The number of attempts at a call, and the pauses between them."""

    token: str | None = field(default=None, repr=False)
    """The access token, a secret. None: the environment's token (`psoup_client.channel.token`). "": no token."""

    timezone: str | None = None
    """The zone of times in rows that are given without one, such as "Europe/Berlin". None: PSOUP_TIMEZONE, else UTC."""

    def __post_init__(self) -> None:
        """Raise TypeError for an option of a wrong type, which gRPC would report only at the first call."""
        if not isinstance(self.retry, RetryOptions):
            raise TypeError(f"retry is {self.retry!r}: give RetryOptions(...)")
        if not isinstance(self.timezone, str | None):
            raise TypeError(f"timezone is {self.timezone!r}: give the name of a zone, such as 'Europe/Berlin'")
        if not isinstance(self.token, str | None):
            raise TypeError(f"token is of the type {type(self.token).__name__}: give a text")  # without the secret
        if self.credentials is not None and not isinstance(self.credentials, grpc.ChannelCredentials):
            kind = type(self.credentials).__name__  # the value may be a secret
            raise TypeError(f"credentials are of the type {kind}: give what grpc.ssl_channel_credentials(...) returns")
        if not isinstance(self.interceptors, list | tuple):
            raise TypeError(f"interceptors is {self.interceptors!r}: give a tuple of interceptors")
        if not isinstance(self.channel_options, list | tuple) or not all(map(_is_option, self.channel_options)):
            example = "(('grpc.keepalive_time_ms', 60_000),)"
            raise TypeError(f"channel_options is {self.channel_options!r}: give pairs, such as {example}")


def _is_option(pair: object) -> bool:
    return isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)
