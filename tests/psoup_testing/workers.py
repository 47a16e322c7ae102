"""Spark's daemon of Python workers, with what they need imported once: each worker is a fork of it.

A worker's own imports take longer than most of what a test has it do. gRPC is imported and does not run here, so that
this may fork.
"""

import pandas  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark import daemon

import psoup_spark  # noqa: F401

if __name__ == "__main__":
    daemon.manager()
