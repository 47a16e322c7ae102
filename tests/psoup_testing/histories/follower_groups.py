"""Groups of followers in histories: they are formed, they confirm positions, and they are dropped."""

from __future__ import annotations

from typing import Any

from psoup.events.groups import ConfirmGroup, DropGroup, FormGroup, first_positions, positions_array
from psoup.local import LocalPSoup
from psoup.model import DEFAULT_TENANT


def change_group(psoup: LocalPSoup, stream: str, step: int) -> None:
    """Form one of two groups at the newest tuple, let it confirm this place, or drop it."""
    snapshot = psoup.engine.snapshot()
    view, name = snapshot.stream(stream, DEFAULT_TENANT), f"group{step % 2}"
    group = snapshot.groups.get((view.stream_id, name))
    if group is None:
        psoup.submit(FormGroup(stream, name, "{}", view.next_id))
    elif step % 3:
        psoup.submit(ConfirmGroup(view.stream_id, name, group.formed, first_positions(view.next_id)))
    else:
        psoup.submit(DropGroup(stream, name))


def share_matches(psoup: LocalPSoup) -> None:
    """Three groups on two streams. One has confirmed positions, and one is dropped."""
    for stream, name in (("readings", "mailer"), ("clicks", "mailer"), ("readings", "brief")):
        psoup.submit(FormGroup(stream, name, '{"labels":{"user":"ü"}}', 7))
    snapshot = psoup.engine.snapshot()
    view = snapshot.stream("readings", DEFAULT_TENANT)
    formed = snapshot.groups[view.stream_id, "mailer"].formed
    for place in (40, 90):
        psoup.submit(ConfirmGroup(view.stream_id, "mailer", formed, first_positions(place)))
    psoup.submit(DropGroup("readings", "brief"))


def shown_groups(psoup: LocalPSoup) -> list[Any]:
    """The groups as JSON, in the order of their streams and names. Of the positions, the first and the last."""
    groups = sorted(psoup.engine.snapshot().groups.items())
    return [
        [*key, group.form, positions_array(group.positions)[[0, -1]].tolist(), group.created, group.confirmed]
        for key, group in groups
    ]
