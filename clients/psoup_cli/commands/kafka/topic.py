"""psoup kafka feed: a topic of Kafka feeds a stream or a table, each record once."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from psoup_cli.commands.kafka.progress import behind, meter, summary
from psoup_cli.common import REFUSED, Address, AsJson, Timeout, connect, message
from psoup_cli.feed_options import FeedPatience, pairs
from psoup_cli.file_flags import IgnoreExtra, Rename, TimeUnit, file_options
from psoup_cli.files.header import FieldNames
from psoup_cli.files.row_files import rules_of
from psoup_cli.output import print_json
from psoup_client import Client, StreamInfo

app = typer.Typer(cls=TyperGroup, no_args_is_help=True, rich_markup_mode=None, add_completion=False)


@app.callback()
def kafka() -> None:
    """\b
    Examples:
      psoup kafka feed orders --topic orders --brokers kafka1:9092,kafka2:9092

    Feed streams and tables from topics of Kafka. Needs the extra psoup[kafka].
    """


class RecordFormat(StrEnum):
    """Choices of --format."""

    JSON = "json"
    AVRO = "avro"


Stream = Annotated[
    str, typer.Argument(metavar="STREAM", help="The stream or table that takes the records.", show_default=False)
]
Topic = Annotated[str, typer.Option("--topic", metavar="NAME", help="The topic of Kafka.", show_default=False)]
Brokers = Annotated[
    str,
    typer.Option(
        "--brokers",
        metavar="HOST:PORT,…",
        envvar="PSOUP_KAFKA_BROKERS",
        help="Some brokers of the cluster.",
        show_default=False,
    ),
]
Format = Annotated[RecordFormat, typer.Option("--format", help="The form of the records' values.")]
Registry = Annotated[
    str | None,
    typer.Option("--schema-registry", metavar="URL", help="With --format avro: the registry that has the schemas."),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--kafka-config-file",
        metavar="FILE",
        help="Settings of librdkafka, NAME=VALUE on each line: TLS, SASL, and schema.registry.* for the registry.",
    ),
]
Config = Annotated[
    list[str] | None,
    typer.Option(
        "--kafka-config", metavar="NAME=VALUE", help="A setting of librdkafka; repeatable. Not for passwords."
    ),
]
Begin = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="earliest|latest|OFFSET",
        help="Where the first start begins (else earliest), and partitions whose recorded offset Kafka has no more.",
    ),
]
UntilEnd = Annotated[
    bool, typer.Option("--until-end", help="End when the records that are there now are in.", show_default=False)
]
Status = Annotated[
    bool, typer.Option("--status", help="Show the position and the lag of each partition, and end.", show_default=False)
]
Name = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="The name of the feed in its positions; else the topic's.")
]
QuarantineDir = Annotated[
    Path | None,
    typer.Option("--quarantine", metavar="DIR", help="Write records that do not fit here, with the reason, and go on."),
]
KeyColumn = Annotated[str, typer.Option("--key-column", metavar="COLUMN", help="The column for the record's key.")]
TimestampColumn = Annotated[
    str, typer.Option("--timestamp-column", metavar="COLUMN", help="The column for the record's timestamp.")
]
PartitionColumn = Annotated[
    str, typer.Option("--partition-column", metavar="COLUMN", help="The column for the record's partition.")
]
OffsetColumn = Annotated[
    str, typer.Option("--offset-column", metavar="COLUMN", help="The column for the record's offset.")
]


def feed(
    stream: Stream,
    topic: Topic,
    brokers: Brokers,
    format: Format = RecordFormat.JSON,
    schema_registry: Registry = None,
    kafka_config_file: ConfigFile = None,
    kafka_config: Config = None,
    begin: Begin = None,
    until_end: UntilEnd = False,
    status: Status = False,
    name: Name = None,
    quarantine: QuarantineDir = None,
    key_column: KeyColumn = "",
    timestamp_column: TimestampColumn = "",
    partition_column: PartitionColumn = "",
    offset_column: OffsetColumn = "",
    rename: Rename = None,
    ignore_extra: IgnoreExtra = False,
    time_unit: TimeUnit = None,
    patience: FeedPatience = 600.0,
    as_json: AsJson = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup kafka feed orders --topic orders --brokers kafka1:9092
      psoup kafka feed orders --topic orders --brokers kafka1:9092 --status

    Feed the records of a topic into a stream or a table, each record once, until Ctrl-C. Each partition is a producer,
    and the next offset is its source position. After any kill the same command goes on there.

    A value is a JSON object, or Avro with a schema registry. Its fields are columns by name. In a table, a record
    without a value (a tombstone) deletes the row of its key. A record that does not fit ends the feed, or is set aside
    with --quarantine.

    The command never skips records: if Kafka has removed some, or the topic was made anew, it ends and says what to do.
    A later start of the same feed ends an earlier one. A line each minute, and --status, show the lag.
    """
    kit = import_module("psoup_kafka")  # needs the extra psoup[kafka]
    config = kit.read_config(kafka_config_file) if kafka_config_file else {}
    config, registry = kit.divide(config | pairs("--kafka-config", kafka_config))
    source = kit.KafkaSource(topic, brokers, config, name or "")
    columns = kit.RecordColumns(key_column, timestamp_column, partition_column, offset_column)
    with connect(address, timeout) as client:
        info = client.describe(stream)
        if status:
            _show_status(kit.lags_now(client, info.name, source), as_json)
            return
        read_value = _reader(kit, format, schema_registry, registry)
        options = file_options(rename=rename, ignore_extra=ignore_extra, time_unit=time_unit)
        fields = FieldNames(info, rules_of(options))
        times = options.times.within(client.timezone)
        target = kit.Target(info, fields, columns, times, client.info().text_bytes, read_value)
        wanted = kit.FeedOptions(start=_begin(begin), until_end=until_end, quarantine=quarantine, patience=patience)
        _feed(kit, client, source, target, wanted, as_json)


def _reader(
    kit: Any, format: RecordFormat, url: str | None, config: Mapping[str, str]
) -> Callable[[bytes], Any] | None:
    """The function that reads values in Avro; None for JSON."""
    url = url or config.get("url")
    if format is RecordFormat.JSON:
        if url:
            raise typer.BadParameter("--schema-registry is for --format avro; say that, or leave it out")
        return None
    if not url:
        raise typer.BadParameter("--format avro needs --schema-registry URL, which has the schemas")
    return kit.AvroValues(kit.SchemaRegistry(url, config)).value


def _begin(text: str | None) -> Any:
    if text is None or text in ("earliest", "latest"):
        return text
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise typer.BadParameter(f"--from {text!r}: give earliest, latest or an offset")
    return int(text)


def _feed(kit: Any, client: Client, source: Any, target: Any, options: Any, as_json: bool) -> None:
    info: StreamInfo = target.info
    with meter(info.name) as tell:
        feed = kit.TopicFeed(client, source, target, options, tell, notice=message)
        with _stopping(feed.stop):
            message(f"Feeding {info.kind} {info.name} from topic {source.topic} of {source.brokers}.")
            figures = feed.run()
    if as_json:
        facts = {"rows": figures.rows, "set_aside": figures.poison, "late": figures.late, "ahead": figures.ahead}
        print_json(facts | {"lag": figures.lag})
    else:
        message(summary(figures, options.quarantine))
    if options.until_end and (figures.poison or figures.late or figures.ahead):
        raise typer.Exit(REFUSED)


@contextmanager
def _stopping(stop: Callable[[], None]) -> Iterator[None]:
    """Inside the `with` block, SIGTERM and the first Ctrl-C end the feed after its last batch."""

    def handle(*_: object) -> None:
        stop()
        signal.signal(signal.SIGINT, before[signal.SIGINT])

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show_status(lags: Any, as_json: bool) -> None:
    """Print the position and the lag of each partition."""
    for each in lags:
        if as_json:
            facts = {"partition": each.partition, "position": each.recorded, "end": each.end, "lag": each.lag}
            print_json(facts)
            continue
        recorded = "no position" if each.recorded is None else f"position {each.recorded}"
        late = "" if each.lag is None else f", {each.lag} behind"
        print(f"partition {each.partition}: {recorded}, end {each.end}{late}")
    if not as_json:
        print(behind(lags))
