"""The commands of `psoup spark`. PySpark is imported when one of them runs."""
