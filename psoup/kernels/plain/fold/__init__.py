"""Twins of `psoup.kernels.fold` in plain NumPy and Python: states of aggregates, numbers of groups."""
