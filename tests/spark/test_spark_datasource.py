"""format("psoup"): what Spark reads is what DuckDB says of the rows, and what it writes is there once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from psoup_client import Client, InvalidRequest
from psoup_testing.services.reply_wait import asked_until
from psoup_testing.services.threaded_service import Serving
from psoup_testing.spark.session import needs_java

pytestmark = [needs_java, pytest.mark.long]
Make = Callable[[str], str]
START = datetime(2021, 3, 14, 6, tzinfo=UTC)
"""Six hours around the hour that New York left out that day."""

COLUMNS = "(seen TIMESTAMP NOT NULL, n BIGINT, t TEXT, price DECIMAL(10,2), x DOUBLE, day DATE) TIMESTAMP BY seen"
ROWS = pa.table(
    {
        "seen": pa.array([START + timedelta(seconds=10 * (k // 2)) for k in range(4_000)], pa.timestamp("us", "UTC")),
        "n": [None if k % 11 == 0 else k % 50 for k in range(4_000)],
        "t": [None if k % 7 == 0 else f"t%{k % 13}" for k in range(4_000)],
        "price": pa.array([Decimal(k) / 100 for k in range(4_000)], pa.decimal128(10, 2)),
        "x": [float("nan") if k % 5 == 0 else k / 3 for k in range(4_000)],
        "day": pa.array([k // 100 for k in range(4_000)], pa.date32()),
    }
)


@pytest.fixture
def psoup(spark: Any, running: Serving) -> Any:
    """`psoup(reader_or_writer, **options)`."""
    from psoup_spark import register

    register(spark)
    return lambda end, **options: end.format("psoup").option("address", running.address).options(**options)


def filled(client: Client, make_stream: Make) -> str:
    name = make_stream(COLUMNS)
    client.wait_for(client.push(name, ROWS).sequence)
    return name


CONDITIONS = (
    "n = 7 AND t IS NOT NULL",
    "n IN (1, 2, 3) AND price > 10.25",
    "t >= 't%5' AND t < 't%9' OR n IS NULL",
    "seen >= TIMESTAMP '2021-03-14 07:30:00' AND n < 10",
    "day = DATE '1970-01-20'",
)


def test_tuples_in_partitions_are_what_duckdb_finds(spark: Any, client: Client, make_stream: Make, psoup: Any) -> None:
    """Filtered by the service, by Spark, by both, and not; the session's zone leaves out an hour of that day."""
    name = filled(client, make_stream)
    duck = duckdb.connect()
    duck.register("rows", ROWS.append_column("id", pa.array(range(len(ROWS)))))
    duck.execute("SET TimeZone = 'UTC'")
    columns = "_id, seen, n, t, price, x, day"
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = psoup(spark.read, stream=name, partitions=3, columns=columns).load()
        assert frame.rdd.getNumPartitions() == 3
        for where in CONDITIONS:
            filtered = psoup(spark.read, stream=name, partitions=2, where=where, columns="_id").load()
            found = sorted(row[0] for row in filtered.collect())
            expected = duck.execute(f"SELECT id FROM rows WHERE {where} ORDER BY id").fetchall()
            assert found == [row[0] for row in expected], where
        assert frame.where("n = 7").count() == duck.execute("SELECT count(*) FROM rows WHERE n = 7").fetchone()[0]
        whole = frame.orderBy("_id").toArrow()
        late = frame.where("seen >= timestamp'2021-03-14 03:30:00'").count()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert late == sum(one.as_py() >= datetime(2021, 3, 14, 7, 30, tzinfo=UTC) for one in ROWS.column("seen"))
    assert whole.column("seen").to_pylist() == ROWS.column("seen").to_pylist()
    for column in ROWS.column_names[1:]:
        assert list(map(repr, whole.column(column).to_pylist())) == list(map(repr, ROWS.column(column).to_pylist()))
    assert client.queries() == [], "what the partitions registered is gone"


def test_answers_with_as_of_and_window(spark: Any, client: Client, make_stream: Make, psoup: Any) -> None:
    name = filled(client, make_stream)
    query = client.register(f"SELECT n, price FROM {name} WHERE n > 40 BEGIN (NOW - 10 MINUTES)")
    try:
        for options in (
            {},
            {"as_of": "2021-03-14T08:00:00Z"},
            {"window": "BEGIN (TIMESTAMP '2021-03-14 07:00:00') END (TIMESTAMP '2021-03-14 08:00:00')"},
        ):
            frame = psoup(spark.read, query=query.id, **options).load()
            assert frame.columns == ["n", "price"]
            expected = query.invoke(**options).rows()
            assert [tuple(row) for row in frame.collect()] == expected
            assert len(expected) > 5
        client.register(f"SELECT t FROM {name} WHERE n = 7", key=f"{name} seven")
        keyed = psoup(spark.read, key=f"{name} seven", as_of="2021-03-14T08:00:00Z").load()
        expected = client.invoke(key=f"{name} seven", as_of="2021-03-14T08:00:00Z").rows()
        assert [tuple(row) for row in keyed.collect()] == expected and expected
        client.unregister(key=f"{name} seven")
    finally:
        query.unregister()


def test_a_write_is_taken_once(spark: Any, client: Client, make_stream: Make, psoup: Any) -> None:
    name = make_stream("(id BIGINT, t TEXT)")
    frame = spark.range(0, 3_000, 1, 3).selectExpr("id", "if(id % 3 = 0, null, cast(id as string)) AS t")
    for _ in range(2):
        psoup(frame.write, stream=name, id="nightly").mode("append").save()
    assert psoup(spark.read, stream=name).load().count() == 3_000
    psoup(frame.write, stream=name).mode("append").save()
    again = psoup(spark.read, stream=name).load()
    assert again.where("t IS NULL").count() == 2_000
    assert again.exceptAll(frame.unionAll(frame)).count() == 0
    with pytest.raises(Exception, match="no column 'other'"):
        psoup(frame.withColumnRenamed("t", "other").write, stream=name).mode("append").save()
    with pytest.raises(Exception, match="appended to"):
        psoup(frame.write, stream=name).mode("overwrite").save()
    broken = spark.range(0, 10, 1, 2).selectExpr("if(id = 9, raise_error('no'), id) AS id")
    with pytest.raises(Exception, match="no"):
        psoup(broken.write, stream=name).mode("append").save()
    asked_until(lambda: client.describe(name).tuples, lambda tuples: tuples == 6_000)


def test_a_stream_is_followed_and_fed_into_another(
    spark: Any, client: Client, make_stream: Make, psoup: Any, tmp_path: Path, running: Serving
) -> None:
    from psoup_spark import feed

    source, copy = make_stream(COLUMNS), make_stream(COLUMNS)
    options = {"checkpoint": tmp_path / "c", "address": running.address, "trigger": {"availableNow": True}}
    client.push(source, ROWS.slice(0, 3_001))  # two tuples of each time: half of the last pair, which is not final
    first = feed(psoup(spark.readStream, stream=source).load(), copy, **options)
    assert first.wait()
    assert first.result.accepted == 3_000
    client.push(source, ROWS.slice(3_001))
    client.heartbeat(source, START + timedelta(days=1))
    assert feed(psoup(spark.readStream, stream=source).load(), copy, **options).wait()
    ours, theirs = (client.register(f"SELECT n, t, price, day, seen FROM {one}") for one in (source, copy))
    rows = theirs.invoke().rows()
    assert len(rows) == len(ROWS)
    assert sorted(map(repr, rows)) == sorted(map(repr, ours.invoke().rows()))


def test_options_that_mean_nothing_are_refused(spark: Any, client: Client, make_stream: Make, psoup: Any) -> None:
    from psoup_spark.datasource import PSoupSource

    name = make_stream("(id BIGINT)")
    for named in ({}, {"stream": name, "query": "q"}):
        with pytest.raises(InvalidRequest, match="one of them"):
            PSoupSource(named)
    for options, said in (
        ({"stream": "nowhere"}, "nowhere"),
        ({"stream": name, "columns": "id, other"}, "no column 'other'"),
    ):
        with pytest.raises(Exception, match=said):
            psoup(spark.read, **options).load()


def test_an_answer_that_needs_all_tuples_at_once_is_read_and_not_followed(
    client: Client, make_stream: Make, running: Serving
) -> None:
    from psoup_spark.datasource import PSoupSource

    name = filled(client, make_stream)
    counted = client.register(f"SELECT t, count(*) AS n, sum(price) AS p FROM {name} GROUP BY t")
    hop = "hop(seen, INTERVAL 1 HOUR, INTERVAL 2 HOURS)"
    in_buckets = client.register(f"SELECT {hop} AS w, count(*) AS n FROM {name} GROUP BY w")
    joined = client.register(f"SELECT a.n FROM {name} a, {name} b WHERE a.seen = b.seen")
    distinct = client.register(f"SELECT DISTINCT n FROM {name} ORDER BY n")
    numbered = client.register(f"SELECT n, row_number() OVER (ORDER BY seen) AS place FROM {name}")
    first, skipped = (client.register(f"SELECT n FROM {name} {words}") for words in ("LIMIT 3", "OFFSET 3"))
    refused = {
        "counts over several tuples": [counted, in_buckets],
        "brings together tuples": [joined],
        "compares each tuple with other tuples": [numbered],
        "shows one of the tuples that look the same": [distinct],
        "shows some of all tuples": [first, skipped],
    }
    for query, said in ((query, said) for said, queries in refused.items() for query in queries):
        source = PSoupSource({"address": running.address, "query": query.id})
        with pytest.raises(InvalidRequest, match=said):
            source.streamReader(source.schema())
    schema = PSoupSource({"address": running.address, "query": counted.id}).schema()
    assert [field.dataType.simpleString() for field in schema] == ["string", "bigint", "decimal(38,2)"]
