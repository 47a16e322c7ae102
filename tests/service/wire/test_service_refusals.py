"""Leftovers of a refused call: no table that only the garbage collector would find. A table can have 200 MB."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pyarrow as pa
import pytest

from psoup_client import Client
from psoup_proto.v1 import ingest_pb2, ingest_pb2_grpc, queries_pb2, queries_pb2_grpc
from psoup_testing.services.threaded_service import serving
from psoup_testing.suite.sweeps import swept

Call = Callable[[grpc.Channel], object]


def packed(column: str, values: Any) -> bytes:
    """Arrow IPC, compressed."""
    table, sink = pa.table({column: values}), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def block(sql: str, values: Any) -> Call:
    """A registration of many, which the SDK would have sent in parts, or refused."""
    asked = queries_pb2.RegisterManyRequest(statements=[sql], parameters=packed("v", values))
    return lambda channel: queries_pb2_grpc.QueryServiceStub(channel).RegisterMany(asked)


def push(column: str, values: Any) -> Call:
    """A push that the SDK would have refused."""
    asked = ingest_pb2.PushRequest(stream="s", arrow_ipc=packed(column, values))
    return lambda channel: ingest_pb2_grpc.IngestServiceStub(channel).Push(asked)


CALLS: dict[str, Callable[[], Call]] = {
    "a value in a block": lambda: block("SELECT x FROM s WHERE x = ?", ["a"] * 300),
    "a long block": lambda: block("SELECT x FROM s WHERE t = ?", [f"{n:060000}" for n in range(1_200)]),
    "a batch": lambda: push("x", ["a"]),
    "a large batch": lambda: push("x", ["a"] * 400_000),
    "a large batch of numbers": lambda: push("x", np.full(400_000, 2.5)),
}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with serving() as service, Client(service.address) as connected:
        connected.create_stream("CREATE STREAM s (x BIGINT, t TEXT)")
        yield connected


@pytest.mark.parametrize("name", swept(CALLS, fast=2))
def test_no_table_outlives_a_refusal(name: str, client: Client) -> None:
    call = CALLS[name]()
    with grpc.insecure_channel(client.address) as channel:
        gc.collect()
        gc.disable()
        try:
            before, end = pa.total_allocated_bytes(), time.monotonic() + 60
            for _ in range(3):
                with pytest.raises(grpc.RpcError):
                    call(channel)
            while pa.total_allocated_bytes() > before and time.monotonic() < end:
                client.queries()  # the last call may have a step or two to go
            assert pa.total_allocated_bytes() <= before
        finally:
            gc.enable()
