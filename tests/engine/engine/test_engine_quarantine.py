"""Clauses outside the index: the time at which they leave it, the facts about their pairs, and their return.

pieces of 8      |0..7|8..15|16..23|      abs raises in all three: after the third, all that read it are out
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from psoup.answer.invoke import invoke
from psoup.clauses.quarantine import EvaluationPlace, Precautions, shape_of
from psoup.config import EngineConfig
from psoup.engine.engine import Engine
from psoup.engine.maintenance.cover import evaluating
from psoup.events.events import Event
from psoup.expressions.error_guard import reason_of
from psoup.model import DEFAULT_TENANT
from psoup.results.gaps import NO_GAPS, WHOLE
from psoup.work.clock import VirtualClock
from psoup_testing.engines.error_expressions import poison, raising
from psoup_testing.engines.recorded import RecordingPSoup

SMALL = EngineConfig(chunk_rows=64, piece_rows=8, delta_queries=4)
BAD = {"abs": poison(13)}


@pytest.fixture
def soup() -> RecordingPSoup:
    made = RecordingPSoup(SMALL, VirtualClock())
    made.execute("CREATE STREAM s (a BIGINT, n BIGINT)")
    return made


def push(soup: RecordingPSoup, values: list[int]) -> None:
    soup.push("s", pa.table({"a": values, "n": [0] * len(values)}))


def rows(soup: RecordingPSoup, query_id: int, engine: Engine | None = None) -> list[int]:
    snapshot = (engine or soup.engine).snapshot()
    answer = invoke(snapshot, query_id, tenant=DEFAULT_TENANT, now=0).to_table()
    return [int(value) for value in answer.column("a").to_pylist()]


def out(soup: RecordingPSoup) -> int:
    return len(soup.engine.snapshot().stream("s", DEFAULT_TENANT).outside.ids)


def replayed(events: list[Event], precautions: Precautions) -> Engine:
    engine = Engine(SMALL)
    engine.take_precautions(precautions)
    engine.apply(events)
    engine.check()
    return engine


def test_gaps_keep_the_least_offset() -> None:
    gaps = NO_GAPS.joined(NO_GAPS.ids, 3)
    assert gaps is NO_GAPS
    ids = [9, 5]
    for offset in (8, 4, 6):
        gaps = gaps.joined(pa.array(ids).to_numpy(), offset)
    assert [gaps.of(i) for i in (4, 5, 9)] == [WHOLE, 4, 4]
    gaps.check(8)
    assert gaps.without(pa.array([5]).to_numpy()).ids.tolist() == [9]


def test_three_times_and_all_that_read_it_leave_together(soup: RecordingPSoup) -> None:
    first = soup.register("SELECT a FROM s WHERE abs(a) > 2")
    second = soup.register("SELECT a FROM s WHERE abs(a) > 4 AND n = 0")
    other = soup.register("SELECT a FROM s WHERE a > 4")
    push(soup, list(range(8)))
    with raising(BAD) as told:
        for number in range(1, 4):
            push(soup, [5, 13])
            assert out(soup) == (2 if number == 3 else 0)
        count = len(told)
        push(soup, [5, 13])
        assert len(told) == count, "it is computed no more"
        assert rows(soup, first) == [3, 4, 5, 6, 7, *[5] * 4]
        assert rows(soup, second) == [5, 6, 7, *[5] * 4]
        assert rows(soup, other) == [5, 6, 7, *[5, 13] * 4]
        assert soup.matches("s", 8) == [first, second, other] and soup.matches("s", 9) == [other]
    (left,) = soup.engine.news()
    assert (left.stream, left.clauses, left.query_ids) == ("s", 2, (first, second))
    assert (left.expression == "abs(a)" and "abs over 2 rows" in left.why) or "Error" in left.why
    assert "abs(a)" in soup.explain(first).source.outside[0] and not soup.explain(other).source.outside
    assert any("row by row" in line for line in soup.explain(first).lines())
    soup.check()


def test_what_was_evaluated_before_stays_covered(soup: RecordingPSoup) -> None:
    query = soup.register("SELECT a FROM s WHERE abs(a) > 2")
    push(soup, list(range(16)))
    with raising(BAD):
        push(soup, [13])
        (entry,) = soup.engine.snapshot().stream("s", DEFAULT_TENANT).chunks
        assert entry.results.covered_to(1) == 16 and not entry.results.covers(1)
        push(soup, [4] * 80)
        soup.maintain()
        closed, last = soup.engine.snapshot().stream("s", DEFAULT_TENANT).chunks
        assert closed.results.covered_to(1) == 16, "kept when the chunk is sealed"
        assert last.results.covers(1), "the next chunk knows nothing of it"
        assert rows(soup, query) == [*range(3, 16), *[4] * 80]


def test_new_queries_join_the_quarantine_and_the_last_to_go_ends_it(soup: RecordingPSoup) -> None:
    first = soup.register("SELECT a FROM s WHERE abs(a) > 2")
    with raising(BAD):
        for _ in range(3):
            push(soup, [13])
        same, other = (
            soup.register("SELECT n FROM s WHERE abs(a) > 2"),
            soup.register("SELECT a FROM s WHERE abs(a) > 7"),
        )
        block = soup.register_many("SELECT a FROM s WHERE abs(a) > ?", [(k,) for k in range(10, 20)])
        assert out(soup) == 12, "a clause that is shared, a new one, and ten of a block"
        push(soup, [12])
        assert rows(soup, other) == [12] == rows(soup, block[1]) and rows(soup, block[2]) == []
        soup.check()
    soup.engine.news()
    for query in (first, same, other, *block[1:]):
        soup.unregister(query)
        soup.check()
    assert out(soup) == 1 and not soup.engine.news()
    soup.unregister(block[0])
    assert out(soup) == 0
    (lifted,) = soup.engine.news()
    assert (lifted.clauses, lifted.expression) == (0, "abs(a)")
    again = soup.register("SELECT a FROM s WHERE abs(a) > 2")
    push(soup, [5])
    assert out(soup) == 0 and rows(soup, again) == [13, 13, 13, 12, 5], "it may be tried again"
    soup.maintain()
    soup.check()


def test_covering_counts_too_and_never_says_no_match(soup: RecordingPSoup) -> None:
    push(soup, [13, *range(20, 83)] * 3)
    with raising(BAD):
        query = soup.register("SELECT a FROM s WHERE abs(a) >= 20")
        soup.maintain()
        assert out(soup) == 1, "three chunks, and none of them could be covered"
        assert rows(soup, query) == list(range(20, 83)) * 3
        assert invoke(soup.engine.snapshot(), query, tenant=DEFAULT_TENANT, now=0).completeness.errors == 3
        soup.check()


def test_a_row_that_cannot_be_evaluated_is_an_error_of_that_row(soup: RecordingPSoup) -> None:
    query = soup.register("SELECT a FROM s WHERE abs(a) > 2")
    with raising(BAD):
        for _ in range(40):
            push(soup, [13, 3, 1])
        answer = soup.invoke(query)
        assert answer.completeness.errors == 40 and answer.matched == 40


def test_queries_are_put_out_by_hand(soup: RecordingPSoup) -> None:
    first = soup.register("SELECT a FROM s WHERE abs(a) > 2")
    plain = soup.register("SELECT a FROM s WHERE a > 2")
    same = soup.register("SELECT a FROM s WHERE abs(a) > 3")
    push(soup, [1, 5, -9])
    engine = replayed(soup.events, Precautions(by_hand=frozenset({first, plain, 77})))
    view = engine.snapshot().stream("s", DEFAULT_TENANT)
    assert len(view.outside.ids) == 3, "both that read abs(a), and the plain one alone"
    assert [rows(soup, query, engine) for query in (first, plain, same)] == [[5, -9], [5], [5, -9]]
    assert {left.why for left in engine.news()} == {"taken out by the operator"}


def test_what_ended_two_processes_is_not_evaluated_again(soup: RecordingPSoup) -> None:
    query = soup.register("SELECT a FROM s WHERE abs(a) > 2")
    soup.register("SELECT a FROM s WHERE a > 2")
    for _ in range(3):
        push(soup, list(range(8)))
    places: list[EvaluationPlace] = []

    def watch(place: EvaluationPlace) -> bool:
        places.append(place)
        return place.first_id != 8

    singly = Engine(SMALL)
    singly.take_precautions(Precautions(watch))
    with raising({"abs": lambda column: 8 in column.values}):
        for event in soup.events:
            singly.apply([event])
    assert [(place.what, place.first_id, place.rows) for place in places] == [("arrival", 0, 8), ("arrival", 8, 8)]
    assert len(singly.snapshot().stream("s", DEFAULT_TENANT).outside.ids) == 1
    assert rows(soup, query, singly) == [3, 4, 5, 6, 7] * 3
    singly.check()
    ((stream_id, digests),) = singly.kept_out().items()
    held = replayed(soup.events, Precautions(held={stream_id: frozenset(digests)}))
    assert len(held.snapshot().stream("s", DEFAULT_TENANT).outside.ids) == 1
    assert held.kept_out() == singly.kept_out()
    assert rows(soup, query, held) == [3, 4, 5, 6, 7] * 3
    (left,) = held.news()
    assert left.clauses == 1 and left.query_ids == (query,)


def test_a_refused_cover_takes_out_what_it_would_compute(soup: RecordingPSoup) -> None:
    push(soup, list(range(130)))
    query = soup.register("SELECT a FROM s WHERE abs(a) < 5")
    while (task := soup.engine.maintenance(everything=True)) is not None:
        evaluated = evaluating(task)
        soup.engine.install(task.compute() if evaluated is None else evaluated[0].refused())
    assert out(soup) == 1 and rows(soup, query) == list(range(5))
    soup.check()


def test_a_log_sees_no_constants() -> None:
    soup = RecordingPSoup(SMALL, VirtualClock())
    soup.execute("CREATE STREAM s (a BIGINT, t TEXT)")
    soup.register("SELECT a FROM s WHERE replace(t, 'secret', 'word') = 'other' AND a > 5")
    exprs = soup.engine.snapshot().stream("s", DEFAULT_TENANT).index.attributes.values()
    assert "replace(t, ?, ?)" in {shape_of(expr) for expr in exprs}


def test_reasons_tell_no_values() -> None:
    assert reason_of(MemoryError("27 GB")) == "MemoryError: 27 GB"
    try:
        raise KeyError("a value")
    except KeyError as problem:
        assert reason_of(problem).startswith("KeyError in test_reasons_tell_no_values, line ")


def test_an_expression_that_makes_too_much_text_leaves_the_index() -> None:
    """What fits by cutting the piece is time of the writer, for which everybody waits: it has an end."""
    config = EngineConfig(chunk_rows=64, piece_rows=64, text_bytes=1_000, evaluation_bytes=1_000)
    soup = RecordingPSoup(config, VirtualClock())
    soup.execute("CREATE STREAM s (a TEXT)")
    much = soup.register(f"SELECT a FROM s WHERE length(replace(replace(a, 'x', '{'y' * 20}'), 'y', 'zzzzz')) = 500")
    text = soup.register(f"SELECT a FROM s WHERE replace(a, 'x', '{'y' * 150}') > 'x'")
    little = soup.register("SELECT a FROM s WHERE length(replace(a, 'x', 'yy')) = 10")
    for _ in range(3):
        soup.push("s", pa.table({"a": ["xxxxx", "-"] * 32}))
    assert out(soup) == 2
    reasons = [soup.explain(query).source.outside for query in (much, text, little)]
    assert all("bytes of text over" in reason[0] for reason in reasons[:2]) and not reasons[2]
    soup.push("s", pa.table({"a": ["xxxxx", "-"]}))
    answers = [invoke(soup.engine.snapshot(), q, tenant=DEFAULT_TENANT, now=0) for q in (much, text, little)]
    assert [answer.to_table().num_rows for answer in answers] == [97, 97, 97]
    soup.check()
