"""psoup promote: a standby becomes the service that writes."""

from __future__ import annotations

import dataclasses

from psoup_cli.common import Address, AsJson, connect, message
from psoup_cli.output import iso, print_json


def promote(as_json: AsJson = False, address: Address = None) -> None:
    """\b
    Examples:
      psoup promote --address 10.0.0.6:7433

    Let a standby (psoup serve --standby) become the service that writes. It applies everything that the copy has, and
    fences the older service. IDs, keys, tokens and positions go on. The older service stops as soon as it can reach the
    copy. Events that it has not copied are lost. The command takes a token with the role operator, of the tenant
    default.

    Call it once the older service is known to be gone. If the command is interrupted, the promotion goes on. Call it
    again to see the result.
    """
    with connect(address) as client:
        result = client.promote(progress=_tell)
    if as_json:
        print_json(dataclasses.asdict(result) | {"time": iso(result.time)})
        return
    message(
        f"The standby writes from now on. It has everything up to event {result.sequence:,}, which the older service"
        f" stored at {iso(result.time)}."
    )
    message(result.lost)


def _tell(applied: int, last: int) -> None:
    message(f"The standby has applied event {applied:,}, and the copy has event {last:,}.")
