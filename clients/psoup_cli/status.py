"""psoup status: the service and what it holds."""

from __future__ import annotations

import dataclasses

from psoup_cli.common import Address, AsJson, Timeout, connect
from psoup_cli.output import print_json, print_pairs


def status(as_json: AsJson = False, address: Address = None, timeout: Timeout = None) -> None:
    """\b
    Examples:
      psoup status
      psoup status --address 10.0.0.5:7433 --json

    Say whether the service serves, and what it holds. Exit code 3 if nobody answers.
    """
    with connect(address, timeout) as client:
        info = client.info()
        if as_json:
            print_json({"address": client.address, **dataclasses.asdict(info)})
            return
        pairs = [
            ("address", client.address),
            ("version", info.version),
            ("state", info.state),
            ("store", f"{info.store}, {'survives a restart' if info.durable else 'nothing survives a restart'}"),
            ("started", info.started),
            ("sequence", f"{info.sequence:,}"),
            ("streams", f"{len(client.streams()):,}"),
            ("queries", f"{sum(s.queries for s in client.streams()):,}"),
        ]
    pairs += [
        (f"memory: {name.removesuffix('_bytes')}", f"{size:,} bytes") for name, size in sorted(info.memory.items())
    ]
    print_pairs(pairs)
