"""A file as it comes, and helpers that write its bytes."""

from __future__ import annotations

import gzip
import io
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


@dataclass(frozen=True)
class Dirty:
    """A file: its name and bytes, what is said of it, how many of its rows fit, and how it is read (`file_options`)."""

    name: str
    content: bytes
    said: str = ""
    rows: int = 0
    options: dict[str, Any] = field(default_factory=dict)


def text_file(name: str, text: str, said: str = "", rows: int = 0, *, written: str = "utf-8", **options: Any) -> Dirty:
    return Dirty(name, text.encode(written), said, rows, options)


def gzip_bytes(text: bytes) -> bytes:
    return gzip.compress(text, mtime=0)


def arrow_bytes(codec: str, text: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as file:
        file.write(text)
    return sink.getvalue().to_pybytes()


def parquet_bytes(**columns: pa.Array) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()
