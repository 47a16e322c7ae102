"""Clients that watch answers: each query of a client is a place, and its changes are sent when the client reads."""
