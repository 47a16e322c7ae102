"""Tuples on arrival beside standing queries, and queries as they come and go: `arrival.*`, `register.*`, `growth.*`."""
