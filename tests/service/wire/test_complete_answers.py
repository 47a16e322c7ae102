"""Kept answers on the wire: messages, pieces and pages of COMPLETE queries equal the answers of PARTIAL queries."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from psoup.answer.invoke import Answer
from psoup.answer.kept_answers.sent_answers import SentAnswer
from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup_proto.v1 import queries_pb2
from psoup_service.wire.answers import Pieces, page, whole
from psoup_service.wire.written import Written
from psoup_testing.oracles.complete_answers import COMPLETE
from psoup_testing.suite.sweeps import swept

SELECTS = (
    "SELECT v, w FROM s WHERE v < 900 BEGIN (NOW - 20000 ROWS)",
    "SELECT v, t, w + 1 AS x FROM s WHERE v < 900 BEGIN (NOW - 20000 ROWS)",
    "SELECT v, t FROM s WHERE v < 90 ORDER BY w DESC, t BEGIN (NOW - 20000 ROWS)",
    "SELECT a.v, b.t FROM s [ROWS 900] AS a, s [ROWS 50] AS b WHERE a.v = b.v",
)


def rows_of(raw: bytes) -> pa.Table:
    """The rows of an Arrow IPC stream, as one batch."""
    return pa.ipc.open_stream(raw).read_all().combine_chunks()


def in_one_message(answer: Answer, max_bytes: int = 1 << 24) -> tuple[pa.Table | None, int, str]:
    """The rows of `whole`, their number, and the completeness. No rows if they are too large."""
    reply = whole(answer, max_bytes, queries_pb2.InvokeResponse)
    return None if reply.too_large else rows_of(reply.arrow_ipc), reply.rows, str(reply.completeness)


def in_pieces(answer: Answer) -> pa.Table:
    """The rows of the pieces of a streamed answer."""
    pieces, raw = Pieces(answer.lean(), queries_pb2.InvokeStreamResponse, 10_000), list[bytes]()
    while (piece := pieces.next()) is not None:
        message = piece[1]
        if isinstance(message, Written):
            message = queries_pb2.InvokeStreamResponse.FromString(message.raw)
        raw.append(message.arrow_ipc)
    return rows_of(b"".join(raw))


@pytest.mark.parametrize("select", swept(SELECTS, fast=2))
def test_messages_pieces_and_pages_are_those_of_partial_queries(select: str) -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=4_096))
    soup.execute("CREATE STREAM s (v BIGINT NOT NULL, w BIGINT NOT NULL, t TEXT)")
    partial, complete = soup.register(select), soup.register(select, keeping=COMPLETE)
    for step in range(5):
        numbers = np.arange((20_000, 0, 300, 300, 1)[step]) + 20_000 * step
        soup.push("s", pa.table({"v": numbers * 37 % 1_000, "w": numbers, "t": (numbers % 97).astype(str)}))
        ours = in_one_message(soup.invoke(complete))
        assert ours == in_one_message(soup.invoke(partial))
        assert type(soup.invoke(complete)) is SentAnswer
        assert in_pieces(soup.invoke(complete)) == in_pieces(soup.invoke(partial)) == ours[0]
        assert in_one_message(soup.invoke(complete), 9_000) == in_one_message(soup.invoke(partial), 9_000)
        for offset, rows in ((0, 50), (ours[1] // 2, 1_000), (ours[1] - 3, 10), (ours[1], 5)):
            ask = max(offset, 0), rows, 1 << 20
            assert page(soup.invoke(complete), *ask) == page(soup.invoke(partial), *ask)
