"""Measures PSoup beside what a user would take instead. `make bench` runs everything; see `__main__.py`."""
