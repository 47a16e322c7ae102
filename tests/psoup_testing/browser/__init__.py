"""A browser under test: pages of a real site, and the requests that a page sends."""
