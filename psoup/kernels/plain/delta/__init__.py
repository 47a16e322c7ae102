"""Twins of `psoup.kernels.delta` in plain NumPy and Python: latest ends, and partners of left rows."""
