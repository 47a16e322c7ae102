"""The engine of PSoup: streams, standing queries, and the join that keeps answers ready. Start reading at
`psoup.local`."""
