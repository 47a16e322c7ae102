"""Random commands, good and bad: a refusal leaves no trace, and replaying the events leads to the same state.

`Gate.send` holds both promises against every single command; here it gets all kinds of them, mixed.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psoup.admission import Admission
from psoup.config import EngineConfig
from psoup.errors import Internal, PSoupError
from psoup.events.commands import AlterQueries, Command, CreateStream, DropStream, Heartbeat, Push, Register, Unregister
from psoup.events.groups import ConfirmGroup, DropGroup, FormGroup, first_positions
from psoup.events.tags import Tag
from psoup.events.tenants import CreateTenant, Quotas
from psoup.events.webhooks import AddWebhook, AdvanceWebhook, DropWebhook, PauseWebhook, ResumeWebhook, RotateWebhook
from psoup.model import SECOND
from psoup.plan.amounts import Amount, Keeping, KeepingChange
from psoup_testing.engines.admission_gate import Gate, rows
from psoup_testing.suite.budget import scaled

CONFIG = EngineConfig(
    memory_bytes=4_000,
    kept_acknowledgements=2,
    kept_requests=2,
    producer_idle=5 * SECOND,
    producers=2,
    producer_rest=2 * SECOND,
    max_ahead=SECOND,
)
SHARED = replace(CONFIG, memory_bytes=16_000)
"""Two tenants, each of which may remember two producers or three: then the longest silent ones make way."""
NAMES = st.sampled_from(["a", "B", "c"])
TENANTS = st.sampled_from(["default", "default", "other"])
TIMES = st.one_of(st.integers(-3, 12), st.none())
QUERIES = (
    "SELECT * FROM a WHERE x > 1",
    "SELECT x FROM b BEGIN (NOW - 1 HOUR)",
    "SELECT x FROM a BEGIN (NOW - 3 SECONDS)",
    "SELECT nope FROM c",
    "SELECT",
)
CREATES = (
    "CREATE STREAM a (t TIMESTAMP, x BIGINT) TIMESTAMP BY t LATENESS 2 SECONDS RETENTION 5 SECONDS",
    "CREATE STREAM A (x BIGINT)",
    "CREATE STREAM b (t TIMESTAMP, x BIGINT NOT NULL) TIMESTAMP BY t",
    "CREATE STREAM c (t TIMESTAMP, x BIGINT)",
    "CREATE STREAM c (",
)


@st.composite
def pushes(draw: st.DrawFn) -> Push:
    times = draw(st.lists(TIMES, max_size=4))
    table = rows(t=times, x=[draw(st.sampled_from([1, 2, None])) for _ in times])  # type: ignore[arg-type]
    producer = draw(st.sampled_from(["", "p", "q", "r"]))
    epoch, number = (draw(st.integers(0, 1)), draw(st.integers(-1, 4))) if producer else (0, 0)
    since = draw(st.integers(0, 12)) if producer else 0
    return Push(draw(NAMES), table, producer, epoch, number, tenant=draw(TENANTS), since=since)


GROUPS = st.sampled_from(["mailer", "pager"])
COMMANDS: st.SearchStrategy[Command] = st.one_of(
    pushes(),
    pushes(),
    st.builds(CreateStream, st.sampled_from(CREATES), TENANTS),
    st.builds(DropStream, NAMES, TENANTS),
    st.builds(Heartbeat, NAMES, st.integers(-2, 12).map(lambda t: t * SECOND), TENANTS),
    st.builds(Register, st.sampled_from(QUERIES), st.sampled_from(["", "r1", "r2", "r3"]), TENANTS),
    st.builds(Unregister, st.integers(0, 4), TENANTS),
    st.builds(
        Register,
        st.sampled_from(QUERIES[:2]),
        TENANTS.map(lambda _: ""),
        TENANTS,
        keeping=st.sampled_from([Keeping(Amount.NONE), Keeping(active=False), Keeping(eager=True)]),
    ),
    st.builds(
        AlterQueries,
        st.lists(st.integers(0, 4), max_size=3).map(lambda ids: np.array(ids, np.int64)),
        change=st.builds(
            KeepingChange, st.sampled_from([None, *Amount]), st.none(), st.sampled_from([None, True, False])
        ),
        tenant=TENANTS,
        dry_run=st.booleans(),
    ),
    st.builds(FormGroup, NAMES, GROUPS, st.sampled_from(["all", "some"]), st.integers(0, 3), TENANTS),
    st.builds(ConfirmGroup, st.integers(1, 4), GROUPS, st.just(0), st.integers(0, 9).map(first_positions), TENANTS),
    st.builds(DropGroup, NAMES, GROUPS, TENANTS),
    st.builds(Register, st.sampled_from(QUERIES[:2]), st.just(""), TENANTS, st.just(Tag("k"))),
    st.builds(
        AddWebhook,
        st.sampled_from(["k", "no query"]),
        st.sampled_from(["https://a", "https://b"]),
        st.just("s"),
        TENANTS,
    ),
    st.builds(AdvanceWebhook, st.integers(1, 9), st.sampled_from([b"", b"1"]), st.none(), st.booleans(), TENANTS),
    st.builds(PauseWebhook, st.integers(1, 9), st.just("call"), TENANTS),
    st.builds(ResumeWebhook, st.integers(1, 9), TENANTS),
    st.builds(RotateWebhook, st.integers(1, 9), st.sampled_from(["old", "new"]), TENANTS),
    st.builds(DropWebhook, st.integers(1, 9), TENANTS),
)
STEPS = st.lists(st.tuples(COMMANDS, st.integers(-2, 4), st.booleans()), max_size=40)


@pytest.mark.parametrize("config", [CONFIG, SHARED])
@settings(max_examples=scaled(60))
@given(steps=STEPS)
def test_a_refusal_leaves_no_trace_and_replay_leads_to_the_same_state(
    config: EngineConfig, steps: list[tuple[Command, int, bool]]
) -> None:
    gate = Gate(config)
    if config is SHARED:
        gate.send(CreateTenant("other", Quotas(weight=2.0)))
    for sql in CREATES[:1] + CREATES[2:4]:
        gate.create(sql)
    watermarks: dict[int, int] = {}
    for command, ticks, give_back in steps:
        gate.now += ticks
        if isinstance(command, ConfirmGroup):
            group = gate.admission.state()["groups"].get((command.stream_id, command.name))  # type: ignore[attr-defined]
            command = replace(command, formed=0 if group is None else group.formed)
        try:
            event = gate.send(command).event
        except Internal:
            raise
        except PSoupError:
            continue
        watermark = getattr(event, "watermark", None)
        if watermark is not None:
            stream_id = event.stream_id  # type: ignore[union-attr]
            assert watermark >= watermarks.get(stream_id, watermark)
            watermarks[stream_id] = watermark
        if give_back:
            for admission in (gate.admission, gate.shadow):
                admission.give_back(admission.reserved_bytes // 2)
    assert all(later.sequence == earlier.sequence + 1 for earlier, later in pairwise(gate.events))
    late = Admission(config)
    for event in gate.events:
        late.replay(event)
    late.give_back(late.reserved_bytes - gate.admission.reserved_bytes)
    assert late.state() == gate.admission.state()


def test_events_are_replayed_forwards_only() -> None:
    gate = Gate()
    gate.create(CREATES[3])
    with pytest.raises(Internal, match="event 1 is replayed after event 1"):
        gate.admission.replay(gate.events[0])


def test_a_log_may_have_gaps() -> None:
    gate = Gate()
    gate.create(CREATES[3])
    gate.push("c", x=[1])
    gate.push("c", x=[2])
    other = Admission(sequence=0)
    other.replay(gate.events[0])
    other.replay(gate.events[2])
    assert other.prepare(Push("c", rows(x=[3])), 0).acknowledgement.sequence == 4


def test_a_defect_costs_one_command_and_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()

    def broken(text: str, **_: object) -> None:
        raise KeyError(text)

    monkeypatch.setattr("psoup.admission.definitions.create_stream", broken)
    with pytest.raises(Internal, match="CreateStream failed inside PSoup: KeyError"):
        gate.create("CREATE STREAM c (x BIGINT)")
    monkeypatch.undo()
    gate.create("CREATE STREAM c (x BIGINT)")
