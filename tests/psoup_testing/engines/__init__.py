"""Embedded engines under test: restarted, fed in batches, with history attached, without a service."""
