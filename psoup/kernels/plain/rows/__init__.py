"""Twins of `psoup.kernels.rows` in plain NumPy and Python: bitmaps, columns, orders."""
