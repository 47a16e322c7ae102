"""Following: new tuples of a stream in stream order, each with the standing queries that it matched."""
