"""Names, words and signs of other systems, each with the words to write here instead."""
