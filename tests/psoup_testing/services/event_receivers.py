"""An assistant that subscribes to events by webhook, and a receiver that repeats challenges."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any
from urllib.parse import urlsplit

from psoup.errors import NotFound
from psoup_testing.services.receivers import Received, Receiver, Reply, replies
from psoup_testing.services.threaded_service import Serving

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwAAAA"
_VERSION = "2026-07-28"
_META = {
    "io.modelcontextprotocol/protocolVersion": _VERSION,
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/events": {}}},
}


class Willing(Receiver):
    """A receiver that repeats challenges. `events`: the bodies of its other requests."""

    def _note(self, request: Received, connection: socket.socket) -> None:
        body = json.loads(request.body)
        if body.get("type") == "verification" and not self.script:
            self.script.append(repeats(body["challenge"]))
        super()._note(request, connection)

    @property
    def events(self) -> list[Received]:
        """The requests that are not challenges, of the present URL."""
        return [request for request in self.requests if json.loads(request.body).get("type") != "verification"]


def is_gone(service: Serving, key: str) -> bool:
    """Whether no query of the tenant `default` has a key."""
    try:
        service.service.host.snapshot().query_with(key, "default")
    except NotFound:
        return True
    return False


def repeats(challenge: str) -> Reply:
    """A reply to a challenge."""
    body = json.dumps({"challenge": challenge}).encode()
    return replies(200, f"Content-Length: {len(body)}", body)


class Assistant:
    """An assistant with an access token."""

    def __init__(self, url: str, token: str) -> None:
        self._place = urlsplit(url).netloc
        self._token = token

    def asked(self, method: str, **params: Any) -> dict[str, Any]:
        """The reply to a request."""
        connection = http.client.HTTPConnection(self._place, timeout=60)
        message = {"jsonrpc": "2.0", "id": 5, "method": method, "params": {**params, "_meta": _META}}
        headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": _VERSION,
            "mcp-method": method,
        }
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        connection.request("POST", "/mcp", json.dumps(message), headers)
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    def subscribed(self, url: str, secret: str = SECRET, key: str = "large", **params: Any) -> dict[str, Any]:
        """The result of a subscription."""
        params = {"arguments": {"key": key}, **params}
        delivery = {"mode": "webhook", "url": url, "secret": secret}
        reply = self.asked("events/subscribe", name="answer_changed", delivery=delivery, **params)
        assert "result" in reply, reply
        result: dict[str, Any] = reply["result"]
        return result

    def refused(self, url: str, secret: str = SECRET, **params: Any) -> tuple[int, Any]:
        """The code and the facts of the refusal of a subscription."""
        params = {"arguments": {"key": "large"}, **params}
        delivery = {"mode": "webhook", "url": url, "secret": secret, **params.pop("delivery", {})}
        error = self.asked("events/subscribe", name="answer_changed", delivery=delivery, **params)["error"]
        return error["code"], error.get("data")

    def unsubscribed(self, url: str, **arguments: str) -> dict[str, Any]:
        """The reply to the end of a subscription."""
        arguments = arguments or {"key": "large"}
        return self.asked("events/unsubscribe", name="answer_changed", arguments=arguments, delivery={"url": url})
