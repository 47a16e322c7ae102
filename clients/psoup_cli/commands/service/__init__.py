"""Commands about a service: `psoup serve`, `demo`, `status`, `open`, `clock`, `promote` and `config`.

    config ──> serve ──> status, open, clock
               demo: serve, a stream, queries and rows

Question: does the service run, with which settings, and what does it hold?

Files, in reading order:

    serve     the service in this process
    demo      a year of flights, and questions about it
    status    the state of a service
    open      the page of a service, in a browser
    clock     the time of the service
    promote   a standby becomes the service that writes
    config    settings, and the source of each

Never here: an action on rows or queries, the demo excepted.
Not for: access tokens and tenants (`psoup_cli.commands.access`).
"""
