"""The operator's tools for a data directory: examining it, setting damage aside, copying it."""
