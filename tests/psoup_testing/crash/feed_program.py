"""A feed as a program that may be killed: rows 0, 1, 2 … of a source, each batch with its source position.

    python -m psoup_testing.crash.feed_program ADDRESS ROWS

It prints a number after each reply, and ends when all rows are in.
"""

from __future__ import annotations

import sys

from psoup_client import Client, NotFound

CREATE = "CREATE STREAM s (n BIGINT)"
STREAM, NAME = "s", "feed"


def run(address: str, rows: int) -> None:
    """Read the recorded position, and send what comes after it."""
    with Client(address, timeout=60) as client:
        try:
            at = client.position(STREAM, NAME)
            epoch, number, start = at.epoch, at.number, int(at.source or b"0")
        except NotFound:
            epoch, number, start = 1, 0, 0
        print(start, flush=True)
        with client.producer(
            STREAM,
            name=NAME,
            epoch=epoch,
            number=number,
            retry_seconds=60,
            on_reply=lambda result: print(result.accepted, flush=True),
        ) as producer:
            while start < rows:
                end = min(start + 1 + start % 7, rows)
                producer.push({"n": range(start, end)}, position=b"%d" % end, after=b"%d" % start if start else b"")
                start = end


if __name__ == "__main__":
    run(sys.argv[1], int(sys.argv[2]))
