"""The contract psoup.v1: types, streams, ingest, queries and server."""
