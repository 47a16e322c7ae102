"""The Data SteM: the tuples of a stream, chunk by chunk, in memory and on disk, with indexes and statistics of them."""
