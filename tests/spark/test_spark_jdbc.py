"""Spark's own reader and writer of JDBC work through PostgreSQL's port."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from psoup_service.process.settings import Settings
from psoup_testing.pg.script import pg_address
from psoup_testing.pg.trades import ROWS, fill
from psoup_testing.services.threaded_service import Serving
from psoup_testing.spark.session import JDBC, needs_java

pytestmark = [
    needs_java,
    pytest.mark.long,
    pytest.mark.skipif(not JDBC.exists(), reason="JDBC's driver is not installed (Debian's libpostgresql-jdbc-java)"),
]


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, str]]:
    """The options of reads and writes over a service with a stream of 30 tuples."""
    running = Serving(Settings(port=0, pg_port=0))
    try:
        fill(running)
        place = f"jdbc:postgresql://{pg_address(running)}/any"
        yield {"url": place, "user": "me", "password": "x", "driver": "org.postgresql.Driver"}
    finally:
        running.stop()


def test_spark_reads_filters_divides_and_writes(spark: Any, options: dict[str, str]) -> None:
    def read(**more: Any) -> Any:
        return spark.read.format("jdbc").options(**options, **more).load()

    trades = read(dbtable="streams.trades")
    assert trades.schema.simpleString() == (
        "struct<sym:string,price:double,n:bigint,amount:decimal(10,2),up:boolean,at:timestamp,day:date>"
    )
    where = "n < 9 AND sym IN ('A', 'D') AND price >= 0 AND day >= date'2026-11-02' AND up = true"
    assert [row.n for row in trades.where(where).collect()] == [3]
    assert [row.n for row in trades.where("price IS NULL").collect()] == [7]
    parts = read(dbtable="trades", partitionColumn="n", lowerBound=0, upperBound=ROWS, numPartitions=3, fetchsize=4)
    assert (parts.rdd.getNumPartitions(), parts.count()) == (3, ROWS)
    assert read(query="SELECT sym, count(*) AS c FROM trades GROUP BY sym").groupBy().sum("c").collect()[0][0] == ROWS
    row = ("S", 2.5, 100, Decimal("1.25"), True, dt.date(2026, 11, 29))
    names = "sym string, price double, n bigint, amount decimal(10,2), up boolean, day date"
    frame = spark.createDataFrame([row, ("S", None, 101, None, None, None)], names)
    frame.write.format("jdbc").options(**options, dbtable="streams.trades").mode("append").save()
    written = trades.where("sym = 'S'").orderBy("n").drop("at").collect()
    assert [tuple(each) for each in written] == [row, ("S", None, 101, None, None, None)]
