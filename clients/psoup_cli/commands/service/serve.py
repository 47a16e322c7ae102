"""psoup serve: the service in this process."""

from __future__ import annotations

from typing import Annotated

import typer

from psoup_cli.service import load_settings

MetricsPort = Annotated[
    int | None,
    typer.Option(
        "--metrics-port", metavar="N", min=-1, max=65_535, help="For /metrics, /healthz and /readyz; -1 is off."
    ),
]
WebPort = Annotated[
    int | None,
    typer.Option("--web-port", metavar="N", min=-1, max=65_535, help="For the page in a browser; -1 is off."),
]
WebOrigin = Annotated[
    list[str] | None,
    typer.Option("--web-origin", metavar="ORIGIN", help="A page on another host that may call; repeatable."),
]
PgPort = Annotated[
    int | None,
    typer.Option("--pg-port", metavar="N", min=-1, max=65_535, help="For psql, drivers and BI tools; -1 is off."),
]
OtlpEndpoint = Annotated[
    str | None,
    typer.Option("--otlp-endpoint", metavar="URL", help="Collector that gets traces of calls, by OTLP over gRPC."),
]
Mcp = Annotated[
    bool | None, typer.Option("--mcp", help="Serve tools to assistants (MCP), at /mcp on the port of the page.")
]
PgSocket = Annotated[
    str | None,
    typer.Option("--pg-socket", metavar="DIR", help="Directory for a Unix socket of psql, beside --pg-port."),
]
LogLevel = Annotated[str | None, typer.Option("--log-level", metavar="LEVEL", help="debug, info, warning or error.")]
VerifyLevel = Annotated[
    str | None, typer.Option("--verify", metavar="LEVEL", help="Checks of the memory: off, cheap or all.")
]
Listen = Annotated[
    list[str] | None,
    typer.Option("--listen", metavar="PLACE", help="ADDRESS:PORT, https://ADDRESS:PORT or unix:PATH; repeatable."),
]
TlsCert = Annotated[
    str | None, typer.Option("--tls-cert", metavar="FILE", help="The service's certificate, PEM; read again.")
]
TlsKey = Annotated[str | None, typer.Option("--tls-key", metavar="FILE", help="Its key, PEM, without a password.")]
TlsClientCa = Annotated[
    str | None,
    typer.Option("--tls-client-ca", metavar="FILE", help="The authority that signs clients' certificates, PEM."),
]
Quarantine = Annotated[
    list[str] | None, typer.Option("--quarantine", metavar="ID", help="Keep a query out of the index; repeatable.")
]
Functions = Annotated[
    list[str] | None,
    typer.Option("--functions", metavar="MODULE", help="Load functions of your own; repeatable."),
]


DataDir = Annotated[
    str | None, typer.Option("--data-dir", metavar="DIR", help="Directory for data; made if it is not there.")
]
Replicate = Annotated[
    str | None,
    typer.Option("--replicate", metavar="URL", help="Copy all events to s3://BUCKET/PREFIX, or to a directory."),
]
Standby = Annotated[
    str | None,
    typer.Option("--standby", metavar="URL", help="Follow the copy that another service makes, and only read."),
]
InMemory = Annotated[bool, typer.Option("--memory", help="Keep everything in memory only; write nothing.")]
Port = Annotated[
    int | None, typer.Option("--port", metavar="N", min=0, max=65_535, help="Port for gRPC; 0 takes a free one.")
]
Host = Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")]
Socket = Annotated[
    str | None, typer.Option("--socket", metavar="PATH", help="A Unix socket to listen on instead of a port.")
]
ConfigFile = Annotated[str | None, typer.Option("--config", metavar="FILE", help="Instead of ./psoup.toml.")]


def serve(
    data_dir: DataDir = None,
    memory: InMemory = False,
    replicate: Replicate = None,
    standby: Standby = None,
    port: Port = None,
    host: Host = None,
    socket: Socket = None,
    listen: Listen = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    web_port: WebPort = None,
    web_origin: WebOrigin = None,
    pg_port: PgPort = None,
    pg_socket: PgSocket = None,
    mcp: Mcp = None,
    metrics_port: MetricsPort = None,
    otlp_endpoint: OtlpEndpoint = None,
    log_level: LogLevel = None,
    verify: VerifyLevel = None,
    functions: Functions = None,
    quarantine: Quarantine = None,
    config: ConfigFile = None,
) -> None:
    """\b
    Examples:
      psoup serve
      psoup serve --data-dir /var/lib/psoup --port 8000 --metrics-port 9100
      psoup serve --memory
      psoup serve --replicate s3://bucket/psoup
      psoup serve --standby s3://bucket/psoup --data-dir standby --port 7434
      psoup serve --socket /run/psoup/psoup.sock
      psoup serve --listen 127.0.0.1:7433 --listen 10.0.0.5:7433 --tls-cert psoup.pem --tls-key psoup.key
        --tls-client-ca clients.pem
      PSOUP_MEMORY_MIB=1024 psoup serve
      psoup serve --functions fraud.py

    Start a service; Ctrl-C or SIGTERM ends it. Acknowledged changes are on disk, by default in ./psoup-data, and
    survive a restart. psoup config show lists all settings and their sources.

    A query that cannot be evaluated, or that has ended two starts, leaves the index by itself. Use --quarantine for a
    query that the doctor named (psoup doctor DIR --replay). The query, and all queries with the same expression, are
    then evaluated row by row when they are invoked. Later starts remember it until it is unregistered.

    Off loopback, clients need TLS, and an access token (psoup admin init) or a certificate signed by --tls-client-ca.
    If no client could satisfy this, the service does not start. New certificates in the same files are used within ten
    seconds.

    --functions loads a module with functions of your own: the path of a .py file, or a name that Python can import.
    Statements call them like any other. A service that is started without one refuses the queries that need it.
    """
    if memory and data_dir is not None:
        raise typer.BadParameter("--memory keeps no data directory; leave --data-dir out, or --memory")
    flags = {
        "data_dir": ":memory:" if memory else data_dir,
        "replicate": replicate,
        "standby": standby,
        "port": port,
        "host": host,
        "socket": socket,
        "listen": tuple(listen) if listen else None,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
        "tls_client_ca": tls_client_ca,
        "web_port": web_port,
        "web_origins": tuple(web_origin) if web_origin else None,
        "pg_port": pg_port,
        "mcp": mcp or None,
        "pg_socket": pg_socket,
        "metrics_port": metrics_port,
        "otlp_endpoint": otlp_endpoint,
        "log_level": log_level,
        "verify": verify,
        "functions": tuple(functions) if functions else None,
    }
    loaded = load_settings(flags, config)
    from psoup_service.main import serve as run

    raise typer.Exit(run(loaded.settings, file=loaded.file, quarantine=quarantine or ()))
