"""The Data SteM: the tuples of a stream, chunk by chunk, in memory and on disk, and what is known of them."""
