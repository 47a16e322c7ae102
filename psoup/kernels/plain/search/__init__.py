"""Twins of `psoup.kernels.search` in plain NumPy and Python: rows of kept chunks that match."""
