"""The engine of PSoup: streams, standing queries, and the join that keeps answers ready. Begin at `psoup.local`."""
