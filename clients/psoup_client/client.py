"""The client: streams, pushes, queries, over one channel.

    >>> client = Client()                                  # PSOUP_ADDRESS, else 127.0.0.1:7433
    >>> _ = client.create_stream("CREATE STREAM letters (letter TEXT, n BIGINT)")
    >>> query = client.register("SELECT letter FROM letters WHERE n > 1")
    >>> client.push("letters", [{"letter": "a", "n": 1}, {"letter": "b", "n": 2}]).accepted
    2
    >>> client.query(query.id).invoke().rows()             # any client, any time later
    [('b',)]
    >>> client.close()

Every call has a deadline and may be repeated without harm. So UNAVAILABLE is retried before it is raised: for a second,
or for ten seconds if the service has answered before, because it may be restarting. Threads may share a client. A
client keeps no data. The calls themselves are in `psoup_client.calls`, a file for each group.
"""

from __future__ import annotations

import os

from psoup_client.calls.all_calls import AllCalls
from psoup_client.channel.addresses import PORT
from psoup_client.channel.options import ClientOptions
from psoup_client.channel.threads import ThreadConnection
from psoup_client.columns.zones import check_zone

DEFAULT_ADDRESS = f"127.0.0.1:{PORT}"
DEFAULT_TIMEOUT = 30.0
"""The default deadline of a call, in seconds."""


def address_or_default(address: str | None) -> str:
    """Return the address of a service: the caller's, or PSOUP_ADDRESS, or the default."""
    return address or os.environ.get("PSOUP_ADDRESS") or DEFAULT_ADDRESS


def zone_or_default(timezone: str | None, options: ClientOptions) -> str | None:
    """Return the zone of times without one: the caller's, or PSOUP_TIMEZONE. None: UTC. Raises ValueError."""
    return check_zone(timezone or options.timezone or os.environ.get("PSOUP_TIMEZONE") or None)


class Client(AllCalls):
    """A connection to a PSoup service; use it in a `with` statement, or call `close()`.

    `address` is "host:port", "host" for port 7433, "https://host:port" for TLS, or "unix:" and the path of a socket.
    Several, with commas between ("a:7433,b:7433"), are a service and its standbys: a write finds the one that writes,
    and a read goes to the first that is alive and not behind. The default is the environment variable PSOUP_ADDRESS,
    else 127.0.0.1:7433. PSOUP_CA, PSOUP_CERT and PSOUP_KEY name the files for TLS; PSOUP_TOKEN_FILE or PSOUP_TOKEN
    gives the access token. Nothing is sent before the first call. `timeout` is the default deadline of a call in
    seconds. `timezone`: the zone, such as "Europe/Berlin", of times in rows, of `as_of` and of datetimes in parameters
    without one. The default is PSOUP_TIMEZONE, else UTC. `options`: credentials, a token, channel options,
    interceptors, and the repetition of calls. Raises ValueError for an unknown zone.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        timezone: str | None = None,
        options: ClientOptions = ClientOptions(),
    ) -> None:
        connection = ThreadConnection(address_or_default(address), timeout, options)
        super().__init__(connection)
        self.timezone = zone_or_default(timezone, options)
        self.address = connection.address

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._abandon()

    def __repr__(self) -> str:
        return f"<Client of {self.address}>"

    def close(self) -> None:
        """Close the producers of this client, which waits for them, and the channel. May be called twice.

        Calls that are under way end with Cancelled. Raises the error of a producer; then, too, the channel is closed.
        """
        self._close()
