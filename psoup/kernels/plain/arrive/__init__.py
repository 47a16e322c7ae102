"""Twins of `psoup.kernels.arrive` in plain NumPy and Python: new tuples against a predicate index."""
