"""The connection to a collector of traces, and the facts that OpenTelemetry's variables give.

    http://127.0.0.1:4317            in plain text
    https://collector.example:4317   with TLS

    OTEL_EXPORTER_OTLP_HEADERS       metadata of each request, such as an API key: name=value,name=value
    OTEL_EXPORTER_OTLP_CERTIFICATE   PEM file of the authority of its certificate
    OTEL_SERVICE_NAME                name of the service
    OTEL_RESOURCE_ATTRIBUTES         its further attributes

Without a certificate file, public authorities are trusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

import grpc

from psoup.errors import InvalidInput

_METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_PORT = 4317


class GrpcCollector:
    """A collector that is reached by gRPC."""

    def __init__(self, endpoint: str, environment: Mapping[str, str]) -> None:
        """Connects with the first request. Raises InvalidInput for a certificate file that cannot be read."""
        self.endpoint = endpoint
        place = urlsplit(endpoint)
        host = f"[{place.hostname}]" if ":" in (place.hostname or "") else place.hostname
        target = f"{host}:{place.port or _PORT}"
        options = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]
        if place.scheme == "https":
            credentials = grpc.ssl_channel_credentials(_authority(environment.get("OTEL_EXPORTER_OTLP_CERTIFICATE")))
            self._channel = grpc.secure_channel(target, credentials, options)
        else:
            self._channel = grpc.insecure_channel(target, options)
        self._export = self._channel.unary_unary(_METHOD)
        headers = pairs(environment, "OTEL_EXPORTER_OTLP_HEADERS")
        self._metadata = tuple((name.lower(), value) for name, value in headers)

    def export(self, request: bytes, timeout: float) -> bytes:
        """Send a request and return the reply. Raises grpc.RpcError."""
        reply: bytes = self._export(request, timeout=timeout, metadata=self._metadata)
        return reply

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()


def resource_of(environment: Mapping[str, str], version: str, incarnation: str) -> dict[str, str]:
    """The attributes of the service in traces. `incarnation`: the name of the data."""
    given = dict(pairs(environment, "OTEL_RESOURCE_ATTRIBUTES"))
    name = environment.get("OTEL_SERVICE_NAME") or given.get("service.name") or "psoup"
    return {"service.version": version, "service.instance.id": incarnation} | given | {"service.name": name}


def pairs(environment: Mapping[str, str], variable: str) -> list[tuple[str, str]]:
    """The pairs of a variable in the form `name=value,name=value`, with %-escapes in the values.

    Raises InvalidInput for a part without a name.
    """
    split = list[tuple[str, str]]()
    for part in filter(None, (part.strip() for part in environment.get(variable, "").split(","))):
        name, sign, value = part.partition("=")
        if not (name.strip() and sign):
            raise InvalidInput(
                f"{variable} has a part without '=' or without a name: write name=value", reason="SETTING"
            )
        split.append((name.strip(), unquote(value.strip())))
    return split


def _authority(path: str | None) -> bytes | None:
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as problem:
        raise InvalidInput(
            f"OTEL_EXPORTER_OTLP_CERTIFICATE names {path}, which cannot be read: {problem.strerror}", reason="SETTING"
        ) from problem
