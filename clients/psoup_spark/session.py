"""A Spark session whose settings suit PSoup: the right interpreter, UTC, large Arrow batches, little output.

    spark = session()                                     all cores of this machine
    spark = session("spark://host:7077", conf={"spark.executor.memory": "4g"})

Settings in `conf` take precedence over these defaults. Other sessions (a notebook's, spark-submit's) work as well;
`needed` lists the settings that they should have. Needs Java 17 or newer.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from psoup_client import PSoupError
from psoup_client.channel.tls import VARIABLES
from psoup_client.channel.token import TOKEN_ADDRESS, TOKEN_FILE
from psoup_spark.nanoseconds import SETTING

JAVA = 17
"""The oldest Java that Spark 4 runs on."""

BATCH_ROWS = 65_536
"""The number of rows of an Arrow batch between Spark and Python. It is the maximum of a part, and a full chunk."""


_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers of PySpark that print raised errors a second time, with all Java frames."""

_LOGGING = Path(__file__).with_name("log4j2.properties")


class NoJava(PSoupError):
    """Spark needs Java, and this machine has none, or one that is too old."""

    reason = "NO_JAVA"


def defaults(master: str) -> dict[str, str]:
    """Return the settings that PSoup gives a session, before the caller's.

    A time without a zone is UTC in PSoup, so texts are read as UTC. Workers run the interpreter that runs this.
    """
    settings = {
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
        SETTING: "true",
        "spark.python.daemon.module": "psoup_spark.workers",  # its forks share imports and kernels
        "spark.driver.memory": "1g",  # no data passes through the driver
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
        "spark.sql.streaming.stopTimeout": "60s",
    }
    for variable in (*VARIABLES, TOKEN_FILE, TOKEN_ADDRESS):  # workers need them, too; none of them is a secret
        if path := os.environ.get(variable):
            settings[f"spark.executorEnv.{variable}"] = path
    if master.startswith("local"):  # one machine: its name may not resolve, and is not needed
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        settings["spark.sql.shuffle.partitions"] = str(os.cpu_count() or 1)
    return settings


def session(master: str = "local[*]", *, name: str = "psoup", conf: Mapping[str, str] | None = None) -> SparkSession:
    """Return the Spark session of this process, or create one with these settings.

    Takes 5 seconds. Make it before the first client of this process: Spark starts Java by a fork, which open
    connections may not survive. Raises NoJava. Settings of the driver's process (its memory) take effect only if no
    session was made before in this process.
    """
    check_java()
    settings = {**defaults(master), **(conf or {})}
    # PySpark takes the workers' interpreter from this variable; only spark-submit heeds the setting.
    os.environ.setdefault("PYSPARK_PYTHON", settings["spark.pyspark.python"])
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    for logger in _LOGGERS:
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    return builder.getOrCreate()


def check_java() -> None:
    """Raise NoJava, which names the remedy, if Java is missing."""
    home = os.environ.get("JAVA_HOME")
    if home and not (Path(home) / "bin" / "java").exists():
        raise NoJava(f"JAVA_HOME is {home}, which has no bin/java; name a Java {JAVA} or newer, or unset it")
    if not home and shutil.which("java") is None:
        raise NoJava(
            f"Spark needs Java {JAVA} or newer, and there is none: install it (Debian: openjdk-{JAVA}-jre-headless)"
            " or set JAVA_HOME"
        )
