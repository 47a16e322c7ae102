"""format("psoup"): answers and streams of a service as Spark's data source.

    spark.read.format("psoup").option("query", ID)           the answer; options as_of, window, accept_truncation
    spark.read.format("psoup").option("key", KEY)            the same, of the query with that key
    spark.read.format("psoup").option("stream", NAME)        the tuples kept; options columns, where, partitions
                                                             of a table, the rows that hold now
    spark.readStream.format("psoup")…                        either, as it grows: what the watermark has passed
    frame.write.format("psoup").option("stream", NAME)       one batch, all or nothing; option id: taken once

Call `register(spark)` first. Option address: the service's address; the default is PSOUP_ADDRESS of the driver. A
streaming frame is written with `psoup_spark.feed`, which has the ID that makes its batches exactly once.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructField, StructType

from psoup.config import CHUNK_ROWS
from psoup_client import Client, InvalidRequest, Query, Stage
from psoup_client.ingest.lost_rows import refused_text, warn
from psoup_client.times import to_micros
from psoup_spark.row_sender import BatchId, RowTarget, Sent, abort, begin, commit, send_partition
from psoup_spark.schemas import check_fits, spark_schema
from psoup_spark.window_reads import QueryRead, between, select, windows

PATIENCE = 60.0
MOST_PARTITIONS = 64
_FIRST = -62_135_596_800_000_000
"""The time 0001-01-01 in microseconds, which is before every tuple."""

_ID_COLUMNS = pa.schema([("_id", pa.int64()), ("_time", pa.timestamp("us", "UTC"))])


def register(spark: SparkSession) -> None:
    """Register format("psoup") in a session."""
    spark.dataSource.register(PSoupSource)


class PSoupSource(DataSource):
    """The source or target that the options name; see the module. It runs in the driver."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._stream = options.get("stream", "")
        self._query = options.get("query", "")
        key = options.get("key", "")
        _check_known(options)
        if bool(self._stream) + bool(self._query) + bool(key) != 1:
            ways = '.option("stream", NAME), .option("query", ID) or .option("key", KEY)'
            raise InvalidRequest(f"name what is meant: {ways}, one of them")
        with Client(options.get("address")) as client:
            self._address = client.address
            if key:
                self._query = client.query(key=key).id

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "psoup"

    def schema(self) -> StructType:
        """The columns of the answer or of the stream. The option `columns` may choose some, also `_id` and `_time`."""
        if self._query:
            return _nullable(from_arrow_schema(self._reading().schema(self._window)))
        with Client(self._address) as client:
            fields = {field.name: field for field in spark_schema(client.describe(self._stream))}
        pseudo = {field.name: field for field in _nullable(from_arrow_schema(_ID_COLUMNS))}
        names = [name.strip() for name in self.options.get("columns", ",".join(fields)).split(",")]
        missing = next((name for name in names if name not in fields and name not in pseudo), None)
        if missing is not None:
            raise InvalidRequest(f"stream {self._stream!r} has no column {missing!r}; its columns: {', '.join(fields)}")
        return StructType([fields.get(name) or pseudo[name] for name in names])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of an answer, or of a stream in partitions."""
        reading = self._reading(schema)
        if self._query:
            return AnswerReader(reading, self._window, schema)
        # truncation is accepted: a window may begin before the oldest kept tuple
        reading = replace(reading, accept_truncation=True)
        return StreamReader(reading, self._stream, schema, int(self.options.get("partitions", "0")))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader that yields tuples as the watermark passes them. Raises InvalidRequest for a table."""
        if self._stream:
            self._check_stream()
        reading, stream = self._reading(schema), self._stream
        if self._query:
            with Client(self._address) as client:
                query = client.query(self._query)
                _check_growing(query)
                stream = query.info.stream
        return GrowingReader(reading, stream, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return a writer of one batch. Raises InvalidRequest for mode("overwrite")."""
        if overwrite:
            raise InvalidRequest('streams are appended to: write with .mode("append")')
        if self._query:
            raise InvalidRequest("an answer cannot be written; name a stream")
        with Client(self._address) as client:
            check_fits(schema, client.describe(self._stream))
            new_since = client.known_sequence
        patience, refused = float(self.options.get("patience", PATIENCE)), self.options.get("refused", "count")
        if refused not in ("raise", "count"):
            raise InvalidRequest(f"the option refused is {refused!r}: give raise or count")
        target = RowTarget(self._address, self._stream, patience, refused="raise" if refused == "raise" else "count")
        name = self.options.get("id")
        since = int(self.options.get("since", "0")) if name else new_since
        return BatchWriter(target, BatchId(name or f"spark-write-{uuid.uuid4().hex}", since=since))

    @property
    def _window(self) -> str:
        return self.options.get("window", "")

    def _reading(self, schema: StructType | None = None) -> QueryRead:
        truncated = self.options.get("accept_truncation", "false").lower() == "true"
        reading = QueryRead(self._address, self._query, as_of=self.options.get("as_of"), accept_truncation=truncated)
        if self._query or schema is None:
            return reading
        with Client(self._address) as client:
            table = bool(client.describe(self._stream).primary_key)
        statement = select(self._stream, schema.fieldNames(), self.options.get("where", ""), table=table)
        return replace(reading, statement=statement)

    def _check_stream(self) -> None:
        """Raise InvalidRequest for a table, which cannot be read as it grows."""
        with Client(self._address) as client:
            info = client.describe(self._stream)
        if info.primary_key:
            raise InvalidRequest(
                f"{info.name!r} is a table, whose rows change, and readStream follows streams; read the rows that hold"
                " now with spark.read"
            )


def _check_growing(query: Query) -> None:
    """Raise InvalidRequest if the answer of a query is not the sum of its answers over parts of the window."""
    kinds = {
        "aggregate": "counts over several tuples",
        **dict.fromkeys(("join", "partnerjoin", "relation", "setoperation"), "brings together tuples"),
        "over": "compares each tuple with other tuples",
        "lastrows": "shows the last tuples of each key",
        "distinct": "shows one of the tuples that look the same",
        "limit": "shows some of all tuples",
    }
    said = next((kinds[node.operator] for node in query.explain().nodes if node.operator in kinds), None)
    if said is not None:
        raise InvalidRequest(
            f"query {query.id} {said}, which may come in different batches; read it whole with spark.read, or"
            " follow the stream and do the same in Spark"
        )


@dataclass
class Window(InputPartition):
    """A partition of the source: one window of time."""

    window: str


class AnswerReader(DataSourceReader):
    """The reader of an answer. It has one partition, because an answer is one snapshot."""

    def __init__(self, reading: QueryRead, window: str, schema: StructType) -> None:
        self._reading = reading
        self._window = window
        self._schema = _arrow(schema)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Invoke the query in a worker and yield the rows."""
        yield from self._reading.read(self._window, self._schema)


class StreamReader(DataSourceReader):
    """The reader of a stream's kept tuples. Each partition is a window of time.

    Filters are an option and not pushed down by Spark. A Python source keeps the filters of a frame's first use for its
    second use (seen in 4.3.0), so the second answer would be wrong.
    """

    def __init__(self, reading: QueryRead, stream: str, schema: StructType, partitions: int) -> None:
        self._reading = reading
        self._stream = stream
        self._schema = _arrow(schema)
        self._partitions = partitions

    def partitions(self) -> Sequence[InputPartition]:
        """Return the requested number of partitions. The default is one for each 65,536 tuples, at most 64."""
        with Client(self._reading.address) as client:
            chunks = -(-client.describe(self._stream).tuples // CHUNK_ROWS)
            parts = self._partitions or min(max(chunks, 1), MOST_PARTITIONS)
            return [Window(window) for window in windows(client, self._stream, parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the tuples of one window in a worker."""
        assert isinstance(partition, Window)
        yield from self._reading.read(partition.window, self._schema)


class GrowingReader(DataSourceStreamReader):
    """The reader of a stream or an answer as its watermark moves. An offset is a time; all earlier tuples were read."""

    def __init__(self, reading: QueryRead, stream: str, schema: StructType) -> None:
        self._reading = reading
        self._stream = stream
        self._schema = _arrow(schema)

    def initialOffset(self) -> dict[str, int]:
        """The first offset, before all kept tuples."""
        return {"before": _FIRST}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        """The watermark as an offset. All tuples before it are final."""
        with Client(self._reading.address) as client:
            watermark = client.describe(self._stream).watermark
        return start if watermark is None else {"before": max(start["before"], to_micros(watermark))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """The window between the two offsets; no partition if they are equal."""
        if start == end:
            return []
        begin_at = None if start["before"] == _FIRST else start["before"]
        return [Window(between(begin_at, end["before"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one window in a worker."""
        assert isinstance(partition, Window)
        yield from self._reading.read(partition.window, self._schema)


@dataclass
class _RowsMessage(WriterCommitMessage):
    sent: Sent


class BatchWriter(DataSourceArrowWriter):
    """The writer of one batch. Workers send its parts, and the driver commits it once."""

    def __init__(self, target: RowTarget, batch: BatchId) -> None:
        self._target = target
        self._batch = batch
        with Client(target.address) as client:
            stage = begin(client, target, batch)
            self._stage = stage.id
            self._taken = stage.result is not None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send the rows of one partition. It runs in a worker."""
        sent = Sent([], 0) if self._taken else send_partition(self._target, self._stage, iterator)
        if sent.problem is not None:
            raise sent.problem
        return _RowsMessage(sent)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the batch, which makes all its rows visible."""
        if self._taken:
            return
        sent = [message.sent for message in messages if isinstance(message, _RowsMessage)]
        with Client(self._target.address) as client:
            stage = Stage.join(client, self._target.stream, self._stage)
            result = commit(client, self._target, self._batch, stage, sent)
        warn(refused_text(self._target.stream, result, 'option("refused", "raise") takes all rows or none'))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Drop the parts that workers have sent."""
        if not self._taken:
            with Client(self._target.address) as client:
                abort(Stage.join(client, self._target.stream, self._stage))


def _check_known(options: MutableMapping[str, str]) -> None:
    """Raise InvalidRequest for an unknown option. A misspelt `where` would otherwise select all tuples."""
    of_query = ("as_of", "window", "accept_truncation")
    of_stream = ("columns", "where", "partitions", "id", "since", "patience", "refused")
    named = options.get("query") or options.get("key")
    names = ("address", "query", "key", "stream", *(of_query if named else of_stream))
    odd = next((name for name in options if name.lower() not in names), None)
    if odd is not None:
        subject = "a query" if named else "a stream"
        raise InvalidRequest(f"{odd!r} is not an option for {subject}; the options are {', '.join(names)}")


def _arrow(schema: StructType) -> pa.Schema:
    return to_arrow_schema(schema, timezone="UTC")


def _nullable(schema: StructType) -> StructType:
    return StructType([StructField(field.name, field.dataType, True) for field in schema])
