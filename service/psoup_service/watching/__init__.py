"""Clients that watch answers: each is a place, and is told what has changed when it reads."""
