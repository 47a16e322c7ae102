"""Maintenance: work that keeps structures small and answers ready, computed beside the writer and installed by it."""
