"""Published state: immutable values that the writer publishes and readers read. Nothing here evaluates."""
