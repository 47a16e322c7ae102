"""InvokeMany over a socket: an outcome for each query, in order; replies end where they are full, and go on."""

import grpc
import pyarrow as pa

from psoup_proto.v1 import queries_pb2 as queries
from psoup_testing.services.wire import Wire, refused, run

ROWS = 3_000


async def _filled(wire: Wire, *statements: str) -> list[str]:
    await wire.create("CREATE STREAM s (a BIGINT, b TEXT)")
    ids = [await wire.register(statement) for statement in statements]
    done = await wire.push("s", pa.table({"a": range(ROWS), "b": ["x" * 30] * ROWS}))
    await wire.queries.WaitForSequence(queries.WaitForSequenceRequest(sequence=done.sequence))
    return ids


def _rows(outcome: queries.InvokeOutcome) -> list[int]:
    return pa.ipc.open_stream(outcome.answer.arrow_ipc).read_all().column("a").to_pylist()


def test_every_query_has_its_own_outcome() -> None:
    async def script(wire: Wire) -> None:
        few, none, late = await _filled(
            wire,
            "SELECT a FROM s WHERE a < 3",
            "SELECT a FROM s WHERE a < 0",
            "SELECT a FROM s BEGIN TIMESTAMP '2001-01-01' END TIMESTAMP '2001-01-02'",
        )
        gone = await wire.register("SELECT b FROM s")
        await wire.queries.Unregister(queries.UnregisterRequest(query_id=gone))
        request = queries.InvokeManyRequest(query_ids=[few, gone, "q-1", few, none, late])
        outcomes = (await wire.queries.InvokeMany(request)).outcomes
        assert [one.WhichOneof("outcome") for one in outcomes] == ["answer", "failure", "failure", *["answer"] * 3]
        assert _rows(outcomes[0]) == _rows(outcomes[3]) == [0, 1, 2]
        assert (outcomes[0].answer.rows, outcomes[4].answer.rows, outcomes[5].answer.rows) == (3, 0, 0)
        assert len({one.answer.completeness.sequence for one in outcomes if one.HasField("answer")}) == 1
        for name, outcome, code in (
            (gone, outcomes[1], grpc.StatusCode.NOT_FOUND),
            ("q-1", outcomes[2], grpc.StatusCode.INVALID_ARGUMENT),
        ):
            failure = outcome.failure
            refusal = await refused(wire.queries.Invoke(queries.InvokeRequest(query_id=name)), code)
            assert failure.code == code.value[0]
            assert (failure.message, failure.reason) == (refusal.message, refusal.reason)
            assert dict(failure.facts) == refusal.facts

    run(script)


def test_a_reply_ends_where_it_is_full() -> None:
    async def script(wire: Wire) -> None:
        small, large = await _filled(wire, "SELECT a FROM s WHERE a < 100", "SELECT * FROM s")
        wanted, got = [small] * 5 + [large] + [small] * 5, []
        replies = 0
        while len(got) < len(wanted):
            request = queries.InvokeManyRequest(query_ids=wanted[len(got) :], max_bytes=3_000)
            reply = await wire.queries.InvokeMany(request)
            assert reply.outcomes
            assert sum(len(one.answer.arrow_ipc) for one in reply.outcomes) <= 3_000
            got += reply.outcomes
            replies += 1
        assert 5 < replies < 11
        assert [one.answer.too_large for one in got] == [name == large for name in wanted]
        assert all(_rows(one) == list(range(100)) for one in got if not one.answer.too_large)

    run(script)


def test_what_a_call_must_keep_to() -> None:
    async def script(wire: Wire) -> None:
        (query,) = await _filled(wire, "SELECT a FROM s")
        for request, field in (
            (queries.InvokeManyRequest(), "query_ids"),
            (queries.InvokeManyRequest(query_ids=[query] * 10_001), "query_ids"),
            (queries.InvokeManyRequest(query_ids=[query], max_bytes=-1), "max_bytes"),
            (queries.InvokeManyRequest(query_ids=[query], min_sequence=-1), "min_sequence"),
        ):
            refusal = await refused(wire.queries.InvokeMany(request), grpc.StatusCode.INVALID_ARGUMENT)
            assert refusal.facts["field"] == field
        ahead = queries.InvokeManyRequest(query_ids=[query], min_sequence=10**9)
        assert (
            await refused(wire.queries.InvokeMany(ahead), grpc.StatusCode.OUT_OF_RANGE)
        ).reason == "UNKNOWN_SEQUENCE"
        future = queries.InvokeManyRequest(query_ids=[query])
        future.as_of.FromJsonString("2150-01-01T00:00:00Z")
        (outcome,) = (await wire.queries.InvokeMany(future)).outcomes
        assert outcome.failure.reason == "AS_OF_IN_FUTURE"

    run(script)


def test_ten_thousand_wrong_ids_are_answered_in_replies_that_clients_take() -> None:
    async def script(wire: Wire) -> None:
        wrong = [f"no such query {number:,} {'long ' * 20}" for number in range(10_000)]
        reply = await wire.queries.InvokeMany(queries.InvokeManyRequest(query_ids=wrong, max_bytes=3 * 2**20))
        assert 1_000 < len(reply.outcomes) <= 10_000
        assert reply.ByteSize() < 4 * 2**20

    run(script)


def test_every_kind_of_answer_counts_what_the_select_list_could_not_compute() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM e (t TEXT)")
        name = await wire.register("SELECT CAST(t AS BIGINT) AS v FROM e")
        done = await wire.push("e", pa.table({"t": ["1", "x", None, "y"]}))
        await wire.queries.WaitForSequence(queries.WaitForSequenceRequest(sequence=done.sequence))
        one = await wire.queries.Invoke(queries.InvokeRequest(query_id=name))
        many = await wire.queries.InvokeMany(queries.InvokeManyRequest(query_ids=[name]))
        page = await wire.queries.InvokeRows(queries.InvokeRowsRequest(query_id=name))
        told = [one.completeness, many.outcomes[0].answer.completeness, page.completeness]
        pieces = [piece async for piece in wire.queries.InvokeStream(queries.InvokeStreamRequest(query_id=name))]
        assert [found.select_errors for found in [*told, pieces[-1].completeness]] == [2] * 4
        assert [piece.HasField("completeness") for piece in pieces] == [True, *[False] * (len(pieces) - 2), True]
        assert [found.errors for found in told] == [0] * 3

    run(script)
