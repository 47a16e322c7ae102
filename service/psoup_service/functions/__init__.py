"""Functions that the operator supplies, in a process of their own: see `process` for the service's end of it."""
