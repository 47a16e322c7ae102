"""What the writer publishes and readers read: immutable values, and nothing that evaluates."""
