"""The Data SteM: the tuples of a stream, in chunks in memory and on disk, with indexes and statistics of each chunk."""
