"""Published state: immutable values that the writer publishes and readers read. No expression is evaluated here."""
