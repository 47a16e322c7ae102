"""Crashes: disks that fail, power cuts, processes that end, and the checker of acknowledged batches."""
