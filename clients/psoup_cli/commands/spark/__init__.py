"""The commands of `psoup spark`. A command imports PySpark when it runs."""
