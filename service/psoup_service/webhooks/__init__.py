"""Webhooks: the service sends the changes of an answer to a URL, and repeats a delivery until the receiver takes it."""
