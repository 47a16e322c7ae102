"""Joins as the engine keeps them: one query for clients, and hidden sides on the streams of FROM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from psoup.admission import Admission
from psoup.admission.queries.bind_steps import Binding
from psoup.answer.figures.query_costs import query_cost
from psoup.answer.figures.top_queries import ORDERS, top_queries
from psoup.clauses.quarantine import Precautions
from psoup.config import EngineConfig
from psoup.engine.engine import Engine
from psoup.errors import FailedPrecondition, InvalidInput, NotFound, OutOfRange, ResourceExhausted
from psoup.events.commands import AlterStream, DropStream, RegisterMany
from psoup.events.events import Event
from psoup.execution.select.clause_matches import matches_in
from psoup.invariants import Verify
from psoup.local import LocalPSoup
from psoup.plan.sides import FIRST_SIDE, side_id
from psoup.published.records import QueryRecord
from psoup.published.snapshot import Snapshot
from psoup_testing.engines.error_expressions import poison, raising
from psoup_testing.histories.small_joins import join_of
from psoup_testing.suite.sweeps import swept

SMALL = EngineConfig(chunk_rows=256, piece_rows=64, delta_queries=64)
R, S = "SELECT * FROM r WHERE a > 5", "SELECT * FROM s WHERE b > 7"
OF_R, OF_S = ("r", "a > 5"), ("s", "b > 7")
RS, SS = join_of(OF_R, OF_S), join_of(OF_S, ("s", "b < 3"))
TEMPLATES = [
    f"{RS} AND x1.b > $n",
    f"{SS} AND x0.b > $n",
    f"{RS} AND x0.b <> 3 AND x0.a < $n AND x1.a >= $n",
    f"{RS} AND (x0.a > $n OR x1.b > 3)",
    join_of(("s", "a < $n"), ("r", "b > 3"), ("s", "a > $n + 1")),
]


class Recorded(LocalPSoup):
    """A PSoup that remembers its events."""

    def __init__(self, config: EngineConfig = SMALL, verify: Verify = "all") -> None:
        super().__init__(config, verify=verify)
        self.events: list[Event] = []
        apply = self.engine.apply

        def recorded(events: Sequence[Event]) -> object:
            self.events += events
            return apply(events)

        self.engine.apply = recorded  # type: ignore[method-assign, assignment]
        for stream in "rs":
            self.execute(f"CREATE STREAM {stream} (a BIGINT, b BIGINT)")

    @property
    def seen(self) -> Snapshot:
        return self.engine.snapshot()

    def on(self, stream: str) -> int:
        """How many queries readers see on a stream."""
        return self.seen.stream(stream, self.tenant).queries

    def stand(self) -> list[int]:
        """All IDs of the published map."""
        return [query_id for query_id, _ in self.seen.queries.items(0)]


@pytest.mark.seeded("sides are left after their join is unregistered")
def test_a_join_is_one_query_and_a_side_on_each_stream() -> None:
    soup = Recorded()
    plain = soup.register(R)
    join = soup.register(RS, key="j", labels={"user": "u"})
    later = soup.register(R)
    assert soup.stand() == [plain, join, later, side_id(join, 0), side_id(join, 1)]
    assert soup.queries() == [plain, join, later] and soup.seen.count == 3
    sides = soup.seen.sides_of(soup.seen.query(join, soup.tenant))
    assert [side.query.text for side in sides] == [
        "SELECT * FROM r AS x0 WHERE (x0.a > 5) BEGIN (START) END (NOW)",
        "SELECT * FROM s AS x1 WHERE (x1.b > 7) BEGIN (START) END (NOW)",
    ]
    assert [soup.seen.by_id[side.stream_id].spec.name for side in sides] == ["r", "s"]
    assert soup.seen.clause(sides[0].sqc_id).members == (plain, later, side_id(join, 0))
    assert (soup.on("r"), soup.on("s")) == (3, 1)
    assert soup.query("j") == join and soup.queries(labels={"user": "u"}) == [join]
    soup.unregister(join)
    assert soup.stand() == [plain, later] and (soup.on("r"), soup.on("s")) == (2, 0)
    assert soup.seen.sides == 0 and len(soup.seen.clauses) == 1


def test_a_side_is_evaluated_like_any_selection() -> None:
    soup = Recorded()
    soup.push("s", pa.table({"a": [0] * 600, "b": list(range(600))}))
    join = soup.register(RS)
    soup.push("s", pa.table({"a": [0], "b": [9]}))
    soup.maintain()
    side = soup.seen.side(join, 1)
    view, clause = soup.seen.by_id[side.stream_id], soup.seen.clause(side.sqc_id)
    assert all(entry.results.covers(clause.sqc_id) for entry in view.chunks)
    found = [entry.results.offsets(clause.sqc_id, clause.slot, 0, len(entry.data)) for entry in view.chunks]
    assert sum(map(len, found)) == 600 - 8 + 1


def test_a_join_of_a_stream_with_itself_counts_once_on_it() -> None:
    soup = Recorded()
    join = soup.register(SS)
    same = soup.register(join_of(OF_S, OF_S))
    assert soup.on("s") == 2
    clause = soup.seen.clause(soup.seen.side(join, 0).sqc_id)
    assert clause.members == (side_id(join, 0), side_id(same, 0), side_id(same, 1))
    with pytest.raises(FailedPrecondition, match=rf"stream 's' is used by 2 queries \({join}, {same}\)"):
        soup.execute("DROP STREAM s")
    soup.unregister_many([same, join])
    assert soup.on("s") == 0 and soup.stand() == []


def test_joins_of_a_form_share_their_plan() -> None:
    soup = Recorded()
    ids = [soup.register(join_of(OF_R, ("s", f"b > {number}"))) for number in (3, 4)]
    other = soup.register(join_of(OF_R, ("s", "b > 3"), column="b"))
    first, second, third = (soup.seen.query(query_id, soup.tenant).query for query_id in (*ids, other))
    assert first.plan is second.plan and third.plan is not first.plan
    assert [side.plan for side in first.sides] == [side.plan for side in third.sides]
    assert all(mine.plan is theirs.plan for mine, theirs in zip(first.sides, second.sides, strict=True))
    assert all(s.source is source for s, source in zip(second.selections, first.plan.sources, strict=True))
    assert [side.clause for side in second.sides] == ["FROM r WHERE a >= 6", "FROM s WHERE b >= 5"]


def test_a_block_has_joins_among_its_queries() -> None:
    soup = Recorded()
    texts = [R, RS, S, SS, join_of(OF_S, OF_R, OF_S), S]
    ids = soup.register_many(texts)
    assert list(ids) == soup.queries() == [1, 2, 3, 4, 5, 6]
    assert (soup.on("r"), soup.on("s")) == (3, 5) and soup.seen.sides == 7
    one_by_one = Recorded()
    for text in texts:
        one_by_one.register(text)
    assert one_by_one.stand() == soup.stand()
    assert {i: r.query.text for i, r in soup.seen.queries.items(0)} == {
        i: r.query.text for i, r in one_by_one.seen.queries.items(0)
    }
    charged, block = one_by_one.admission.query_bytes, soup.admission.query_bytes
    assert charged == block > 33_000
    soup.unregister_many([2, 5, 6])
    assert soup.stand() == [1, 3, 4, side_id(4, 0), side_id(4, 1)]
    soup.unregister_many([1, 3, 4])
    assert soup.admission.query_bytes == 0 and soup.seen.sides == len(soup.seen.clauses) == 0


@pytest.mark.parametrize("cascade", ["r", "s"])
def test_a_stream_goes_with_whole_joins(cascade: str) -> None:
    soup = Recorded()
    join, plain, itself = soup.register(RS), soup.register(S), soup.register(SS)
    users = {"r": [join], "s": [join, plain, itself]}[cascade]
    for stream, named in (("r", f"1 query ({join})"), ("s", f"3 queries ({join}, {plain}, {itself})")):
        with pytest.raises(FailedPrecondition, match="is used by") as refused:
            soup.execute(f"DROP STREAM {stream}")
        assert named in str(refused.value)
    soup.push("r" if cascade == "s" else "s", pa.table({"a": [9], "b": [9]}))
    gone = soup.submit(DropStream(cascade, cascade=True, queries=len(users)))
    assert gone.queries == len(users)  # type: ignore[attr-defined]
    left = [i for i in (join, plain, itself) if i not in users]
    assert soup.queries() == left and all(query_id % FIRST_SIDE in left for query_id in soup.stand())
    soup.check()
    for query_id in users:
        with pytest.raises(NotFound):
            soup.unregister(query_id)


def test_a_side_is_of_no_client() -> None:
    soup = Recorded()
    join = soup.register(RS)
    side = side_id(join, 0)
    calls: list[Callable[[], object]] = [
        lambda: soup.unregister(side),
        lambda: soup.unregister_many([side]),
        lambda: soup.unregister_many([join, side]),
        lambda: soup.seen.query(side, soup.tenant),
        lambda: soup.invoke(side),
    ]
    for call in calls:
        with pytest.raises(NotFound) as refused:
            call()
        assert refused.value.reason == "UNKNOWN_QUERY"
    assert not soup.admission.has_query(side) and soup.queries() == [join]


def test_a_join_takes_the_place_of_a_query_and_gives_way_to_one() -> None:
    soup = Recorded()
    plain = soup.register(S, key="k")
    join = soup.register(RS, key="k", replace=True)
    assert soup.stand() == [join, side_id(join, 0), side_id(join, 1)]
    assert soup.register(RS, key="k") == join
    again = soup.register(SS, key="k", replace=True)
    assert soup.stand() == [again, side_id(again, 0), side_id(again, 1)] and soup.on("r") == 0
    with pytest.raises(NotFound, match=f"replaced by query {again}"):
        soup.seen.query(plain, soup.tenant)


def test_joins_go_by_label_prefix_and_age() -> None:
    soup = Recorded()
    soup.register(RS, key="a-1", labels={"user": "u"})
    soup.register(RS, key="b-1")
    kept = soup.register(RS, expires_after="2 days")
    assert soup.unregister_many(labels={"user": "u"}) == 1
    assert soup.unregister_many(key_prefix="b") == 1
    assert soup.stand() == [kept, side_id(kept, 0), side_id(kept, 1)]
    soup.clock.advance(seconds=4 * 86_400)  # type: ignore[attr-defined]
    soup.maintain()
    assert soup.stand() == []


def test_a_repeated_request_is_the_same_join() -> None:
    soup = Recorded()
    first = soup.register(RS, request_id="x")
    assert soup.register(RS, request_id="x") == first
    block = soup.register_many([RS, R], request_id="y")
    assert soup.register_many([RS, R], request_id="y") == block and len(soup.stand()) == 7


def test_a_window_must_fit_the_stream_of_its_source() -> None:
    soup = Recorded()
    soup.execute("CREATE STREAM short (a BIGINT) RETENTION 10 SECONDS")
    with pytest.raises(OutOfRange, match="short"):
        soup.register("SELECT r.b FROM r [RANGE 5 SECONDS], short [RANGE 1 HOUR] WHERE r.a = short.a")


def test_a_join_is_charged_for_its_sides() -> None:
    soup = Recorded(EngineConfig(memory_bytes=1 << 20))
    with pytest.raises(ResourceExhausted, match="queries need"):
        soup.register_many([join_of(*[OF_R] * 8)] * 50)
    assert soup.admission.query_bytes == 0


def test_a_changed_stream_has_the_join_bound_again() -> None:
    soup = Recorded()
    binding = soup.admission.binding(RegisterMany([RS] * 40))
    assert binding is not None and binding.advance()
    assert soup.admission.stands(binding)
    soup.submit(AlterStream("ALTER STREAM s ADD COLUMN c BIGINT"))
    assert not soup.admission.stands(binding)


@pytest.mark.parametrize("beside", swept([True, False], fast=1))
@pytest.mark.parametrize("template", swept(TEMPLATES, fast=(0, 4)))
def test_a_template_makes_joins(beside: bool, template: str) -> None:
    columnar = replace(SMALL, columnar_queries=16)
    soup, single = Recorded(columnar, "cheap"), Recorded(columnar, "cheap")
    for number in range(60):
        single.register(template.replace("$n", str(number)))
    command = RegisterMany([template], [(number,) for number in range(60)], names=("n",))
    binding = None
    if beside:
        binding = Binding(soup.admission._tenant(soup.tenant), command, columnar, soup.admission._budget, beside=True)
        assert binding.advance()
    event = soup.admission.prepare(command, 0, before=binding).event
    assert event is not None
    soup.engine.apply([event])
    soup.check()
    assert soup.stand() == single.stand() and soup.on("s") == 60
    assert len(soup.seen.clauses) == len(single.seen.clauses)
    assert [record.query.text for record in map(soup.seen.queries.get, soup.queries())] == [  # type: ignore[union-attr]
        record.query.text
        for record in map(single.seen.queries.get, single.queries())  # type: ignore[union-attr]
    ]
    assert [record.query.clause for _, record in soup.seen.queries.items(FIRST_SIDE)] == [
        record.query.clause for _, record in single.seen.queries.items(FIRST_SIDE)
    ]
    for made in (soup, single):
        made.register(S)
        for stream in "rs":
            made.push(stream, pa.table({"a": range(0, 90, 3), "b": range(29, -1, -1)}))
        assert made.matches("s", 3) == [61]
    for (i, mine), (_, theirs) in zip(soup.seen.queries.items(61), single.seen.queries.items(61), strict=True):
        sizes = [entry_sizes(made.seen, record) for made, record in ((soup, mine), (single, theirs))]
        assert sizes[0] == sizes[1], i
    soup.unregister(5)
    soup.unregister_many([i for i in soup.queries() if i % 7])
    soup.check()
    assert soup.queries() == [*range(7, 61, 7)] and soup.on("s") == 8
    soup.unregister_many(soup.queries())
    assert soup.stand() == [] and soup.seen.sides == len(soup.seen.clauses) == 0
    assert soup.admission.query_bytes == 0


def entry_sizes(snapshot: Snapshot, record: QueryRecord) -> list[int]:
    """How many tuples of each chunk a query matches."""
    view, clause = snapshot.by_id[record.stream_id], snapshot.clause(record.sqc_id)
    return [len(match.offsets) for match in matches_in(view, clause, 0, view.next_id)]


@pytest.mark.seeded("an ID is given again after a start")
@pytest.mark.parametrize("verify", ["cheap", "all"])
def test_a_replay_leads_to_the_same_state(verify: str) -> None:
    soup = Recorded()
    random = np.random.default_rng(3)
    texts = [R, S, RS, SS, join_of(OF_S, OF_R), join_of(OF_R, OF_R, OF_S)]
    for _ in range(20):
        match int(random.integers(6)):
            case 0:
                soup.register(texts[random.integers(6)], key=f"k{random.integers(3)}", replace=True)
            case 1:
                soup.register_many([texts[k] for k in random.integers(0, 6, 4)])
            case 2 if soup.queries():
                soup.unregister_many([q for q in soup.queries() if random.integers(2)][:5] or soup.queries()[:1])
            case 3 if soup.queries():
                soup.unregister(int(random.choice(soup.queries())))
            case _:
                soup.push("rs"[random.integers(2)], pa.table({name: random.integers(0, 20, 40) for name in "ab"}))
        soup.maintain()
    soup.check()
    admission, engine = Admission(SMALL), Engine(SMALL, verify=verify)  # type: ignore[arg-type]
    admission.share_published(engine.snapshot)
    for event in soup.events:
        admission.replay(event)
    engine.apply(soup.events)
    admission.check()
    engine.check()
    seen = engine.snapshot()
    assert admission.state()["queries"] == soup.admission.state()["queries"]
    for at, record in soup.seen.queries.items(0):
        again = seen.queries.get(at)
        assert again is not None and (again.query, again.sqc_id) == (record.query, record.sqc_id)
    assert (len(seen.queries), seen.sides) == (len(soup.seen.queries), soup.seen.sides)
    assert seen.sides == sum(i >= FIRST_SIDE for i, _ in seen.queries.items(0)) > 0


def test_readers_of_matches_see_no_side() -> None:
    soup = Recorded()
    block = soup.register_many("SELECT * FROM r WHERE a > ? AND b > ?", [(n, n + 1) for n in range(40)])
    plain = soup.register(R)
    join = soup.register(join_of(OF_R, ("r", "b > 77")))
    soup.push("r", pa.table({"a": [100, 9], "b": [100, 2]}))
    rows = pa.table({"a": [100, 9], "b": [100, 2]})
    assert soup.matches("r", 0) == [*block, plain]
    assert [*map(set, soup.matches_many("r", [0, 1]))] == [{*block, plain}, {block[0], plain}]
    found = soup.match("r", rows)
    assert [found.of(row) for row in (0, 1)] == [[*block, plain], [block[0], plain]]
    assert [record.query_id for record in soup.results("r").queries] == [*block, plain]
    with pytest.raises(InvalidInput, match=r"'SELECT .*' is a join \(r\)"):
        soup.results("r", queries=[join])
    with pytest.raises(InvalidInput, match=r"its sources are called x0, x1: say whose tuple it is"):
        soup.why(join, 0)


def test_a_join_costs_what_its_sides_cost() -> None:
    soup, apart = Recorded(), Recorded()
    join, (left, right) = soup.register(RS), (apart.register(R), apart.register(S))
    plain, other = soup.register(R), apart.register(R)
    for each in (soup, apart):
        each.push("r", pa.table({"a": range(50), "b": range(50)}))
        each.push("s", pa.table({"a": range(90), "b": range(90)}))
    cost = query_cost(soup.seen, join, tenant=soup.tenant)
    parts = [query_cost(apart.seen, query_id, tenant=soup.tenant) for query_id in (left, right)]
    assert (cost.candidates, cost.matched) == tuple(
        sum(getattr(part, name) for part in parts) for name in ("candidates", "matched")
    )
    assert cost.share == pytest.approx(sum(part.share for part in parts)) and cost.matched == 44 + 82
    for order in ORDERS:
        top = [cost for _, cost in top_queries(soup.seen, tenant=soup.tenant, by=order)]
        assert {each.query_id for each in top} == {join, plain} and top[0].query_id == join
        assert top[0] == cost
        on_s = top_queries(soup.seen, tenant=soup.tenant, by=order, stream="s")
        assert [each.place.query_id for each in on_s] == [join]
    assert other == 3


def test_sides_that_leave_the_index_are_told_as_their_join() -> None:
    soup = Recorded()
    plain = soup.register("SELECT * FROM s WHERE abs(a) > 6")
    join = soup.register(join_of(OF_R, ("s", "abs(b) > 7")))
    with raising({"abs": poison(13)}):
        for _ in range(4):
            soup.push("s", pa.table({"a": [1, 1], "b": [5, 13]}))
    (left,) = soup.engine.news()
    assert (left.stream, left.clauses, left.query_ids) == ("s", 1, (join,))
    assert soup.matches("s", 1) == [] and soup.match("s", pa.table({"a": [9], "b": [13]})).of(0) == [plain]
    soup.check()
    soup.unregister(join)
    soup.check()
    assert len(soup.seen.stream("s", soup.tenant).outside.ids) == 0


def test_a_join_put_out_by_hand_has_all_sides_put_out() -> None:
    soup = Recorded()
    join, plain = soup.register(join_of(OF_R, ("s", "abs(b) > 7"))), soup.register(S)
    soup.register_many([join_of(OF_S, OF_R), R])
    engine = Engine(SMALL)
    engine.take_precautions(Precautions(by_hand=frozenset({join, plain})))
    engine.apply(soup.events)
    engine.check()
    told = {(left.stream, query_id) for left in engine.news() for query_id in left.query_ids}
    assert told == {("r", 4), ("s", join), ("s", plain)}, "of a clause its first query is named"
    assert [len(engine.snapshot().stream(name, soup.tenant).outside.ids) for name in "rs"] == [1, 2]
