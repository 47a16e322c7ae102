"""A push of files, piece by piece, each with a reply of its own: for tuple IDs, and for refused rows.

0   4711
1   waits      for the watermark
"""

from __future__ import annotations

from collections.abc import Callable

from psoup_cli.common import message
from psoup_cli.output import print_json
from psoup_cli.row_upload import PushedFiles
from psoup_client import Client, InvalidData, PushResult, ResourceExhausted
from psoup_client.errors import after_rows
from psoup_client.ingest.refused_rows import Refusing, behind
from psoup_client.payload import BATCH_ROWS
from psoup_client.phrases import counted, verb


def push_pieces(
    source: PushedFiles, client: Client, stream: str, refused: Refusing, show: Callable[[PushResult, int], None]
) -> PushResult:
    """Push rows. An error that ends the push names the place in the file.

    `refused`: as in `Client.push`, for each piece. `show`: gets the result of each piece, and the number of rows that
    were taken before it.
    """
    total, info = PushResult(), source.target(client, stream)

    def replied() -> PushResult:
        return total

    try:
        for rows in source.tables(info, replied):
            table = source.table(rows, info)
            for start in range(0, len(table), BATCH_ROWS):
                sent = total.accepted + total.late + total.ahead
                try:
                    result = client.push(stream, table.slice(start, BATCH_ROWS), refused=refused)
                except (InvalidData, ResourceExhausted) as problem:
                    raise after_rows(problem, start) from None
                if source.rejects is not None:
                    source.take_refused(behind(result.refused, sent))
                show(result, total.accepted)
                total = total.joined(result)
    except (InvalidData, ResourceExhausted) as problem:
        raise source.named(problem, taken_before(total.accepted)) from None
    finally:
        source.write_refused()
    return total


def print_ids(client: Client, result: PushResult, taken: int, as_json: bool) -> None:
    """Print the tuple IDs of a push's rows. `taken`: the number of rows taken before them."""
    for row, tuple_id in enumerate(client.tuple_ids(result), taken):
        if as_json:
            print_json({"row": row, "tuple_id": tuple_id})
        else:
            print(f"{row}\t{'waits' if tuple_id is None else tuple_id}")
    refused = result.late + result.ahead
    if refused:
        message(f"{counted(refused, 'row')} {verb(refused, 'was', 'were')} refused among these, and not counted.")


def taken_before(taken: int) -> str:
    """Describe how many rows were taken before the faulty one."""
    return f"{counted(taken, 'row')} before it {verb(taken, 'was', 'were')} taken."
