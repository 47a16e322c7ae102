"""The gate: the addresses of the service, and the check of every caller."""
