"""The extra that a command lacks, and the command of pip that brings it.

    psoup push      No module named 'typer'  ──> pip install 'psoup[cli]'
    psoup serve     No module named 'numba'  ──> pip install 'psoup[server]'
    psoup spark     No module named 'numba'  ──> pip install 'psoup[cli,spark]'
    psoup cdc       No module named 'psycopg2' ──> pip install 'psoup[cli,postgres]'
    psoup kafka     No module named 'confluent_kafka' ──> pip install 'psoup[cli,kafka]'
    psoup mcp       No module named 'mcp'    ──> pip install 'psoup[mcp]'

Imports of this module are Python's own, because nothing else may be installed. Any other missing module is an error of
PSoup, or of a function of the operator.
"""

from __future__ import annotations

from collections.abc import Sequence

_SERVER = ("admin", "audit", "backup", "config", "demo", "doctor", "replica", "restore", "serve")
"""Commands that run the service's code or open its data directory. `psoup backup` belongs to `psoup restore`."""

_OTHER = {"spark": "cli,spark", "cdc": "cli,postgres", "kafka": "cli,kafka", "mcp": "mcp"}
"""Extras of commands that need another one."""

OF_EXTRAS = frozenset(
    (
        *("rich", "typer"),
        *("numba", "sortedcontainers", "sqlglot", "xxhash"),
        *("certifi", "grpc_health", "grpc_reflection", "httpcore", "orjson", "prometheus_client", "pydantic"),
        *("standardwebhooks", "starlette", "structlog"),
        *("uvicorn", "uvloop"),
        *("pandas", "pyspark"),
        *("httpx2", "mcp"),
        "psycopg2",
        *("confluent_kafka", "fastavro"),
    )
)
"""Modules that the extras cli, engine, kafka, mcp, postgres, server and spark bring, by the names of their imports."""


def lacking(problem: ModuleNotFoundError, arguments: Sequence[str]) -> str | None:
    """Return a sentence about a missing module; None if no extra brings it. `arguments`: of the command line."""
    module = (problem.name or "").partition(".")[0]
    if module not in OF_EXTRAS:
        return None
    command = next((text for text in arguments if not text.startswith("-")), "")
    extra = "server" if command in _SERVER else _OTHER.get(command, "cli")
    needs = f"psoup {command}" if command.isidentifier() else "the command psoup"
    return f"{needs} needs {module}, which is not installed: pip install 'psoup[{extra}]'"
