"""The gate: where the service listens, and who may come in there."""
