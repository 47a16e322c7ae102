"""Clients that keep answers: copies that come back for changes, and watchers by gRPC or in a page."""
