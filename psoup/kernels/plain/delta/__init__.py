"""Twins of `psoup.kernels.delta`."""
