"""The database of a data directory: opening, checking, syncing, shrinking it, and copying it during writes."""
