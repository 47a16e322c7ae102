"""The `psoup` command: one module a command."""
