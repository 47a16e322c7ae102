"""psoup serve: the service in this process."""

from __future__ import annotations

from typing import Annotated

import typer

from psoup_cli.service import load_settings


def serve(
    data_dir: Annotated[
        str | None, typer.Option("--data-dir", metavar="DIR", help="Directory for data; not used yet, see below.")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", metavar="N", min=0, max=65_535, help="Port for gRPC; 0 takes a free one.")
    ] = None,
    host: Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option("--metrics-port", metavar="N", min=-1, max=65_535, help="For /metrics; -1 is off."),
    ] = None,
    log_level: Annotated[
        str | None, typer.Option("--log-level", metavar="LEVEL", help="debug, info, warning or error.")
    ] = None,
    config: Annotated[str | None, typer.Option("--config", metavar="FILE", help="Instead of ./psoup.toml.")] = None,
) -> None:
    """\b
    Examples:
      psoup serve
      psoup serve --port 8000 --metrics-port 9100
      PSOUP_MEMORY_MIB=1024 psoup serve

    Start a service and keep it up until Ctrl-C or SIGTERM. Everything is kept in memory for now: nothing survives a
    restart. All settings and where they come from: psoup config show
    """
    flags = {
        "data_dir": data_dir,
        "port": port,
        "host": host,
        "metrics_port": metrics_port,
        "log_level": log_level,
    }
    loaded = load_settings(flags, config)
    from psoup_service.main import serve as run

    raise typer.Exit(run(loaded.settings))
