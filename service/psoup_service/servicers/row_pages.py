"""Pages of rows: a token remembers facts of the first page, so that later pages belong to the same answer.

one stream   NOW, the rows before, and the answer's likeness: it must be the same again, else PAGE_EXPIRED
a join       NOW, the rows before, and the tuples of each source that it was made of: these are joined once more,
             whatever has come since; PAGE_EXPIRED only if some of them are not kept any more
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from psoup.answer.invoke import Answer
from psoup.errors import FailedPrecondition, InvalidInput
from psoup.execution.select.window import Ranges
from psoup_proto.v1 import queries_pb2
from psoup_service.host.ids import page_size, page_token, read_page_token
from psoup_service.wire import answers, convert
from psoup_service.wire.completeness import completeness_message
from psoup_service.wire.json_answers import rows_json

_ROWS = 100
_MAX_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class RowPage:
    """The page that a request asks for.

    `now`, `expected`, `ranges`: NOW, likeness and tuples of the first page's answer. They are None for the first page.
    """

    rows: int
    max_bytes: int
    offset: int = 0
    now: int | None = None
    expected: str | None = None
    ranges: Ranges | None = None


def wanted_page(request: queries_pb2.InvokeRowsRequest, max_bytes: int) -> RowPage:
    """The page that a request asks for. Raises InvalidInput for a token of another list or another request."""
    size = page_size(request.page_size, _ROWS, _MAX_ROWS)
    state = read_page_token("rows", request.page_token, now=int, offset=int, request=str, answer=str, ranges=list)
    if state is None:
        return RowPage(size, max_bytes)
    ranges = state["ranges"]
    if state["request"] != _fingerprint(request) or not _is_time(state["now"]) or not all(map(_is_range, ranges)):
        raise InvalidInput(
            "page_token belongs to another invocation; repeat all fields but page_size, or leave it empty",
            reason="PAGE_TOKEN",
            field="page_token",
        )
    made_of = [(low, high) for low, high in ranges] if ranges else None
    return RowPage(size, max_bytes, max(state["offset"], 0), state["now"], state["answer"], made_of)


def made_page(
    answer: Answer, name: str, request: queries_pb2.InvokeRowsRequest, page: RowPage
) -> tuple[queries_pb2.InvokeRowsResponse, int]:
    """The page of an answer, and the number of its rows.

    `name`: the query's name for errors. Raises FailedPrecondition if the answer has changed.
    """
    likeness = "" if answer.ranges else answer.likeness
    if page.expected is not None and likeness != page.expected:
        raise FailedPrecondition(
            f"the answer of {name!r} has changed since its first page; start again without page_token",
            reason="PAGE_EXPIRED",
        )
    contents = answer.completeness
    response = queries_pb2.InvokeRowsResponse(
        completeness=completeness_message(contents, answer.record.query),
        columns=convert.query_columns(answer.record),
    )
    whole, more = answers.page(answer, page.offset, page.rows, page.max_bytes)
    batch = whole
    answers.set_counts(response.completeness, answer)
    if request.json:
        batch, response.json_rows = _fitting_json(batch, page.max_bytes)
        more = more or batch is not whole
    elif batch is not None:
        response.rows.extend(convert.rows(batch, answer.record))
    rows = 0 if batch is None else batch.num_rows
    if rows and more and contents.now is not None:
        response.next_page_token = page_token(
            "rows",
            now=contents.now,
            offset=page.offset + rows,
            request=_fingerprint(request),
            answer=likeness,
            ranges=answer.ranges,
        )
    return response, rows


def _fitting_json(batch: pa.RecordBatch | None, max_bytes: int) -> tuple[pa.RecordBatch | None, bytes]:
    """The first rows of a page whose JSON takes at most `max_bytes`, at least one, and that JSON.

    Each row of JSON repeats the names of its columns. So a page may hold fewer rows.
    """
    if batch is None:
        return None, b"[]"
    raw = rows_json(batch)
    while len(raw) > max_bytes and batch.num_rows > 1:
        batch = batch.slice(0, max(batch.num_rows * max_bytes // (len(raw) + 1), 1))
        raw = rows_json(batch)
    return batch, raw


def _is_time(value: int) -> bool:
    return -(2**63) <= value < 2**63


def _is_range(value: Any) -> bool:
    """Whether a value from a client's token is a range of tuple IDs."""
    return isinstance(value, list) and len(value) == 2 and all(type(end) is int and _is_time(end) for end in value)


def _fingerprint(request: queries_pb2.InvokeRowsRequest) -> str:
    """A digest of all fields of a request that shape the answer."""
    same = queries_pb2.InvokeRowsRequest()
    same.CopyFrom(request)
    same.ClearField("page_size")
    same.ClearField("page_token")
    same.ClearField("min_sequence")
    return hashlib.blake2b(same.SerializeToString(deterministic=True), digest_size=9).hexdigest()
