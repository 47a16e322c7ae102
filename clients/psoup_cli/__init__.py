"""The `psoup` command, with one module for each subcommand."""
