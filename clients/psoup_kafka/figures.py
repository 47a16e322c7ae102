"""The progress and the lag of a feed."""

from __future__ import annotations

from dataclasses import dataclass

from psoup_client import Client
from psoup_kafka.cluster import Cluster
from psoup_kafka.place import recorded_place
from psoup_kafka.settings import KafkaSource


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The lag of a partition. `recorded`: the next offset that the service has; `end`: Kafka's; None if not known.

    A lag counts offsets. Where a topic is compacted or written in transactions it has fewer records.
    """

    partition: int
    recorded: int | None
    end: int | None

    @property
    def lag(self) -> int | None:
        """The offsets between the recorded place and the end."""
        return None if self.recorded is None or self.end is None else max(0, self.end - self.recorded)


@dataclass(frozen=True, slots=True)
class Figures:
    """The outcome of a run: rows that the service has taken, records set aside, rows refused for their times.

    `lags`: of each partition. `seconds`: of the run. `waiting`: the reason for which the feed waits; "" if it reads.
    """

    rows: int = 0
    poison: int = 0
    late: int = 0
    ahead: int = 0
    lags: tuple[PartitionLag, ...] = ()
    seconds: float = 0.0
    waiting: str = ""

    @property
    def lag(self) -> int:
        """The offsets behind the ends of all partitions."""
        return sum(each.lag or 0 for each in self.lags)


def lags_now(client: Client, stream: str, source: KafkaSource) -> tuple[PartitionLag, ...]:
    """Ask both sides for the lag of each partition. A feed may run or not. Raises PSoupError."""
    cluster = Cluster(source, source.group(stream))
    try:
        return tuple(
            PartitionLag(number, None if place is None else place.next, cluster.offsets(number)[1])
            for number in cluster.partitions()
            for place in [recorded_place(client, stream, source.producer(number))]
        )
    finally:
        cluster.close()
