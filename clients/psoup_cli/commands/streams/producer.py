"""psoup producer: where a producer of a stream stopped."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from psoup_cli.common import Address, AsJson, Timeout, connect
from psoup_cli.output import print_json, print_pairs


def producer(
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="The producer's stream.", show_default=False)],
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the producer.", show_default=False)],
    as_json: AsJson = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup producer readings roof
      psoup producer flights monday --json

    Show where a producer stopped, by the service's disk: its epoch, the number of its next batch, and the number of
    rows before that batch. The event and the time of the last batch follow, and the last source position. With
    --json its bytes are hexadecimal digits. After a file was pushed with --whole --id NAME, the next
    number is 1. For an unknown producer the exit code is 4.
    """
    with connect(address, timeout) as client:
        position = client.position(stream, name)
    if as_json:
        source = None if position.source is None else position.source.hex()
        print_json({**dataclasses.asdict(position), "source": source})
        return
    pairs = [
        ("epoch", str(position.epoch)),
        ("next number", f"{position.number:,}"),
        ("rows before it", "not known" if position.rows is None else f"{position.rows:,}"),
        ("last event", f"{position.sequence:,}"),
        ("last batch", position.time),
        ("source position", "none" if position.source is None else ascii(position.source)[1:]),
    ]
    print_pairs(pairs)
