"""Nile's stores, queue, join and selections on a virtual clock."""
