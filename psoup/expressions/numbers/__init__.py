"""Numbers: arithmetic and functions of whole columns, exact in their types.

    columns of BIGINT, DECIMAL, DOUBLE ──a function──> a column, with NULL and error marks

Question: what is the value of a function of numbers, and in which rows is it an error?

Files, in reading order:

    numeric          + - * / and %, in int64 and DECIMAL
    wide             sums of up to 38 digits: arithmetic, comparisons and casts
    long_numbers     constants of more than 18 digits
    rounding         round, floor and ceil
    mathematics      square roots, logarithms, bits of whole numbers
    parse_numbers    texts as numbers and truth values, for CAST

Invariant: no value is wrong without an error mark. A result that does not fit its type is an error of its row.
Never here: a loop over rows in Python, a name of a column, a typing rule.
Not for: typing rules (`psoup.expressions.rules`), comparisons of all types (`psoup.expressions.comparisons`).
"""
