"""The database of a data directory: opened, checked, synced, shrunk, and copied while it is written to."""
