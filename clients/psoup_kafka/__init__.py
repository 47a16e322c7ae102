"""Kafka in: each partition of a topic is a producer of PSoup, whose position is the next offset.

    Kafka ── records of a partition ──> converted ──> numbered batches      position = next offset
                                           └──────> quarantine              records that do not fit

Question: which records must be pushed so that the stream has each of them once?

Files, in reading order:

    loop          a feed: read, convert, send, note replies
    start         the place at which a partition is read on, or the error
    partition     one partition and its producer
    place         the source position of a partition
    cluster       the brokers, behind one consumer
    conversion    records become rows, by the SDK's conversion
    avro_values   values in Avro, and the schema registry
    quarantine    files of records that do not fit
    figures       progress and lag
    settings      a topic, brokers, files with settings
    failures      errors of Kafka as errors of the SDK

Invariant: the recorded position of a partition is behind the last record whose row is in, or that is set aside.
Never here: a conversion of values (psoup_client converts rows); consumer groups decide nothing.
Not for: writing to Kafka.
"""

try:
    import confluent_kafka  # noqa: F401 - so that a missing extra is reported here
except ModuleNotFoundError as problem:
    raise ModuleNotFoundError(
        "psoup_kafka needs confluent-kafka, which is not installed: pip install 'psoup[kafka]'", name="confluent_kafka"
    ) from problem

from psoup_kafka.avro_values import AvroValues, SchemaRegistry
from psoup_kafka.conversion import Converted, Converter, Fields, RecordColumns, Target
from psoup_kafka.figures import Figures, PartitionLag, lags_now
from psoup_kafka.loop import FeedOptions, TopicFeed
from psoup_kafka.place import Place
from psoup_kafka.quarantine import Poison, Quarantine
from psoup_kafka.settings import KafkaSource, divide, read_config
from psoup_kafka.start import Bounds, From, begin

__all__ = [
    "AvroValues",
    "Bounds",
    "Converted",
    "Converter",
    "FeedOptions",
    "Fields",
    "Figures",
    "From",
    "KafkaSource",
    "PartitionLag",
    "Place",
    "Poison",
    "Quarantine",
    "RecordColumns",
    "SchemaRegistry",
    "Target",
    "TopicFeed",
    "begin",
    "divide",
    "lags_now",
    "read_config",
]
