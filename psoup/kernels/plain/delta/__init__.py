"""Twins of `psoup.kernels.delta` in plain NumPy and Python: youngest ends, and partners of left rows."""
