"""Tables and Spark: the rows that hold are read, rows are upserted, and no stream follows a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from psoup_client import Client
from psoup_testing.services import fixtures
from psoup_testing.services.threaded_service import Serving
from psoup_testing.spark.session import needs_java

pytestmark = [needs_java, pytest.mark.long]


@pytest.fixture
def ads(client: Client) -> str:
    name = client.create_table(f"CREATE TABLE ads{next(fixtures.numbers)} (id BIGINT PRIMARY KEY, price DOUBLE)").name
    client.upsert(name, [{"id": n, "price": 10.0 * n} for n in range(20)])
    client.upsert(name, [{"id": n, "price": 1.0} for n in range(5)])
    client.delete(name, range(10, 20))
    return name


@pytest.fixture
def psoup(spark: Any, running: Serving) -> Any:
    from psoup_spark import register

    register(spark)
    return lambda end, **options: end.format("psoup").option("address", running.address).options(**options)


def test_the_rows_that_hold_are_read_and_upserted(spark: Any, client: Client, psoup: Any, ads: str) -> None:
    frame = psoup(spark.read, stream=ads).load()
    assert sorted(map(tuple, frame.collect())) == [(n, 1.0 if n < 5 else 10.0 * n) for n in range(10)]
    dear = psoup(spark.read, stream=ads, columns="id", where="price > 60").load()
    assert sorted(row.id for row in dear.collect()) == [7, 8, 9]
    rows = spark.createDataFrame([(7, 3.0), (30, 4.0)], "id BIGINT, price DOUBLE")
    psoup(rows.write, stream=ads).mode("append").save()
    assert client.ask(f"SELECT id, price FROM {ads} WHERE id IN (7, 30) ORDER BY id").rows() == [(7, 3.0), (30, 4.0)]


def test_a_table_is_not_followed(spark: Any, psoup: Any, ads: str, tmp_path: Path) -> None:
    def follow() -> None:
        growing = psoup(spark.readStream, stream=ads).load()
        growing.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start().processAllAvailable()

    with pytest.raises(Exception, match=f"{ads!r} is a table, whose rows change"):
        follow()
