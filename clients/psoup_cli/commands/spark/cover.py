"""psoup spark cover: a job that evaluates queries over the chunks on disk that lack their matches."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer

from psoup_cli.answer_flags import ManyKeys
from psoup_cli.commands.spark.options import Conf, Functions, Master, PatienceSeconds
from psoup_cli.commands.spark.progress import job_meter
from psoup_cli.commands.spark.run import open_session, spark_module
from psoup_cli.common import Address, AsJson, Labels, connect, labels_of, message
from psoup_cli.output import print_json
from psoup_client.phrases import counted

QueryIds = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ID ...]", help="Queries; a join is covered on each of its streams.", show_default=False),
]
Stream = Annotated[str | None, typer.Option("--stream", metavar="NAME", help="All queries that stand on this stream.")]


def cover(
    query_ids: QueryIds = None,
    stream: Stream = None,
    key: ManyKeys = None,
    label: Labels = None,
    functions: Functions = None,
    patience: PatienceSeconds = 600.0,
    master: Master = "local[*]",
    conf: Conf = None,
    as_json: AsJson = False,
    address: Address = None,
) -> None:
    """\b
    Examples:
      psoup spark cover q-7f3a91c2-12
      psoup spark cover --stream flights
      psoup spark cover --key search-42
      psoup spark cover --stream flights --label user=u3

    Evaluate queries over those chunks on disk that they have not met yet: attached history and archives. Answers stay
    the same; later invocations read the stored matches instead of evaluating. psoup explain says which part is covered.
    Each stream has its own job. A killed job changes no answer; run it again. The service's data directory must be on a
    file system that Spark shares.
    """
    if not query_ids and stream is None and not key and not label:
        raise typer.BadParameter("name queries by their IDs, --key or --label, or all of a stream with --stream NAME")
    which: dict[str, Any] = {"stream": stream, "keys": key or (), "labels": labels_of(label) or None}
    psoup_spark = spark_module()
    with connect(address) as client:
        where = client.address
        client.info()  # so that a missing service is reported before Spark starts
    spark = open_session(master, conf)
    with psoup_spark.spark_errors(), job_meter(stream or "cover") as progress:
        wanted = query_ids or ()
        which["functions"] = functions or ()
        result = psoup_spark.cover(spark, wanted, **which, address=where, patience=patience, progress=progress)
    if as_json:
        print_json(dataclasses.asdict(result))
    elif result.chunks:
        outcome = f"{counted(result.rows, 'row')} in {counted(result.chunks, 'chunk')}"
        outcome += f" for {counted(result.queries, 'query')}: {counted(result.matches, 'match')}"
        message(f"Evaluated {outcome}; covered before: {counted(result.before, 'chunk')}{_gone(result.gone)}.")
    else:
        message(f"Nothing to do: what is on disk ({counted(result.before, 'chunk')}) is covered{_gone(result.gone)}.")


def _gone(count: int) -> str:
    return f", {count:,} expired, lost tuples, or were covered by another job meanwhile" if count else ""
