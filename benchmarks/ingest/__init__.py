"""Calls over a socket: pushes and invocations, durable or not, over TLS, from far away, of many tenants."""
