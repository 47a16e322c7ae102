"""Texts: functions and patterns of whole columns of text; a character is a code point.

    Arrow large_string ──a function──> Arrow large_string, numbers or truth values

Question: what is the value of a function of texts, and does a text match a pattern?

Files, in reading order:

    text           upper, lower, length, trim, replace, concatenation
    slices         substrings by code point, without a loop over rows
    text_pieces    positions, left and right, split_part, padding, repetition, characters as numbers
    like           LIKE, in time linear in the text
    regex          regular expressions of RE2, with constant patterns

Invariant: the size of a result is known, and refused if too large, before its bytes are made.
Never here: a locale, a collation, a loop over rows in Python.
Not for: searches of many patterns at once (`psoup.clauses`), typing rules (`psoup.expressions.rules_texts`).
"""
