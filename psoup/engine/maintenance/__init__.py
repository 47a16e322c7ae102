"""Work that keeps the structures small and the answers ready, computed beside the writer and installed by it."""
