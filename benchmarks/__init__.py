"""Benchmarks of PSoup beside its alternatives. `make bench` runs everything; see `__main__.py`."""
