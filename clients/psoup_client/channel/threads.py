"""The connection of `Client`: gRPC's channel for threads. A call blocks its thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from psoup_client.channel.addresses import target
from psoup_client.channel.connection import Connection, channel_credentials, channel_options
from psoup_client.channel.options import ClientOptions


class ThreadConnection(Connection):
    """A connection whose calls block. Threads may share it. It raises the errors of `Connection`."""

    def __init__(self, address: str, timeout: float, options: ClientOptions) -> None:
        super().__init__(address, timeout, options)
        self._make_stubs([_open_channel(each, options, several=self.routes.several) for each in self.addresses])

    def _reply(
        self, method: Any, request: Any, timeout: float, wait_for_ready: bool, metadata: tuple[tuple[str, Any], ...]
    ) -> Any:
        return method(request, timeout=timeout, wait_for_ready=wait_for_ready, metadata=metadata)

    def _messages(self, call: Any) -> Iterator[Any]:
        replies: Iterator[Any] = iter(call)
        return replies

    def requests(self, requests: Iterator[Any]) -> Any:
        """Return the iterator. gRPC reads it in a thread of its own."""
        return requests

    def close(self) -> None:
        """End all calls and close the channels. May be called twice."""
        self._closed = True
        for channel in self._channels:
            channel.close()

    def pause(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def lock(self) -> threading.Lock:
        """Make a lock."""
        return threading.Lock()

    def event(self) -> threading.Event:
        """Make an event that is not set."""
        return threading.Event()

    def condition(self) -> threading.Condition:
        """Make a condition with a lock of its own."""
        return threading.Condition()

    def start(self, work: Callable[[], None], name: str) -> threading.Thread:
        """Run a function in a new thread."""
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        return thread

    def ahead(self) -> ThreadPoolExecutor:
        """Make a runner of functions, with one thread."""
        return ThreadPoolExecutor(1, "psoup-ahead")


def _open_channel(address: str, options: ClientOptions, *, several: bool) -> grpc.Channel:
    arguments, credentials = channel_options(options, several=several), channel_credentials(address, options)
    if credentials is None:
        channel = grpc.insecure_channel(target(address), options=arguments)
    else:
        channel = grpc.secure_channel(target(address), credentials, options=arguments)
    return grpc.intercept_channel(channel, *options.interceptors) if options.interceptors else channel
