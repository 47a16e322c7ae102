"""Texts: bytes of UTF-8, row after row, cut, joined and searched for many patterns at once.

    texts ──pieces──> parts, padded and replaced texts
    texts ──automaton──> hits of patterns ──patterns──> clauses that may match

Files, in reading order:

    pieces       parts of texts: their places, first letters, replacement, padding
    automaton    many patterns looked for together (Aho and Corasick)
    patterns     candidates of hits, checked by the other factors of their clauses

Invariant: the time is linear in the bytes of the texts, whatever they hold.
Never here: upper and lower case, collations, regular expressions.
Not for: texts as keys of groups (`psoup.kernels.fold.group_numbers`).
"""
