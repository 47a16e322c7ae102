"""The measurement of attacks on a neighbour: the harness runs against a real service, and reports its figures."""

import pytest

from benchmarks.attacks.half_messages import Stalled
from benchmarks.attacks.neighbour import Scenes, attacked
from psoup_testing.services.threaded_service import serving


@pytest.mark.long
def test_rows_of_an_attack() -> None:
    with Scenes(alone=1, turn_seconds=0.4) as scenes:
        rows = {row.name: row for row in attacked(scenes, "half_messages", turns=1)}
    for name in (f"attacked.half_messages.{kind}" for kind in ("invoke", "push", "invoke.apart", "push.apart")):
        assert rows[name].sample.count > 0
        assert rows[name].peer_sample is not None
    assert rows["attacked.half_messages.memory"].sample.median > 50  # megabytes of a process that has loaded the engine
    assert "attacker's calls" in rows["attacked.half_messages.invoke"].note


def test_messages_that_never_end_reach_the_service() -> None:
    with serving() as there:
        stalled = Stalled(there.address, streams=2, declared=1 << 20, sent=200_000)
        for _ in range(200):
            stalled.pump()
            if not stalled.left:
                break
        assert stalled.left < 2 * 200_000  # some of it was taken
        stalled.close()
