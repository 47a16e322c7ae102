"""Twins of `psoup.kernels.names` in plain NumPy and Python: clauses, tags and queries by number."""
