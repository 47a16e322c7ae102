"""The channel: sends calls to a service, with credentials, deadlines and retries.

    address, options ──> Connection ──stub──> call ──status──> error of the SDK, or a retry after a pause

Question: how does a call reach the service, and what does the caller see if it does not?

Files, in reading order:

    options       options of a client: channel, credentials, retries
    addresses     addresses of services, as users write them and as gRPC takes them
    token, tls    the access token; certificates of the service and of the client
    patience      pauses between retries, and their end
    primitives    locks, pauses and work at the same time, as the SDK needs them
    connection    stubs, deadlines, retries, errors; no I/O
    threads       the channel of `Client`, whose calls block (of `AsyncClient`: `psoup_client.aio.connection`)

Never here: a stream, a query, a row.
Not for: facts that calls share, such as schemas (`psoup_client.session`), classes of errors (`psoup_client.errors`).
"""
