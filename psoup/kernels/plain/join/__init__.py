"""Twins of `psoup.kernels.join` in plain NumPy and Python: pairs of sides, and their columns."""
