"""Names, words and signs of other systems, each with the advice to write something else here."""
