"""Twins of `psoup.kernels.texts` in plain NumPy and Python: bytes of texts, and patterns in them."""
