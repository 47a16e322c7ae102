"""STREAM (CIDR 2003): the table of schedulers."""
